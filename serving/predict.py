"""Predicts with the exported model of a run: for raw rows, for images, or for its test split.

    estimator-pipeline predict --run=NAME --input=new.csv     the newest run without --run
    make predict [RUN=name] [INPUT=path] [OUTPUT=path] [FORMAT=csv|jsonl|parquet] [EXPORT=best]
    make predict SIGNATURE=item INPUT=items.parquet     of one tower alone: an index of vectors

--input is a file of rows (CSV, JSON lines, Parquet, ORC, Avro, TFRecord), of images (PNG, JPEG,
IDX), a pattern of such files or a folder of them. Only the SavedModel is used, as a server would:
no code of the model, no checkpoint. Tens of thousands of rows a second of a table; loading takes
seconds.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, versions
from pipeline.config import own_input
from pipeline.console import terminal
from pipeline.records import builds
from pipeline.reports import better_model
from pipeline.runs import exported, run_search
from serving.batch import inputs, predictions
from serving.batch.outputs import FORMATS

_RUN, _CONFIG, _STORAGE = cli.run_flags()
_INPUT = flags.DEFINE_string("input", None, "Raw rows or images; the test split if empty.")
_OUTPUT = flags.DEFINE_string("output", None, "File to write; in the run's folder if empty.")
_FORMAT = flags.DEFINE_enum(
    "format", None, FORMATS, "csv, jsonl or parquet. Default: by the extension of --output."
)
_EXPORT = cli.export_flag(exported.KINDS)
_SIGNATURE = flags.DEFINE_string(
    "signature", None, "A tower of a two_tower, user or item, for rows of its columns alone."
)
_BUDGET = flags.DEFINE_float(
    "error_budget", None, "Replaces data.error_budget: how many rows may be bad.", lower_bound=0
)
_ROWS = flags.DEFINE_integer("rows", 10, "Predictions to show.", lower_bound=0)
_WORKERS, _BEAM = cli.beam_flags()


def main() -> None:
    """Finds the model and the rows, and hands over."""
    versions.require_estimators()
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, trained=True)
    job = run.read_config(import_steps=False)
    own_input.refuse(job, "predict", instead=exported.ELSEWHERE)
    export = exported.find(run, _EXPORT.value)
    given, budget, part = _INPUT.value or None, _BUDGET.value, _SIGNATURE.value or None
    taken = None if part is None else exported.input_columns(export.path, part)
    output = predictions.choose_output(
        run, export, given, path=_OUTPUT.value or None, kind=_FORMAT.value, part=part
    )
    if given is None:
        records = builds.find_run_build(_STORAGE.value, run, job.name)
        asked = inputs.open_split(job, records, budget, part=taken)
    else:
        asked = inputs.open_files(given, job, classes=export.classes, budget=budget, part=taken)
    export.verify()
    print(f"model {terminal.display_path(export.path)}")
    if note := better_model.describe(run, export.step, "make predict EXPORT=best"):
        print(note)
    predictions.predict(
        job,
        export,
        asked,
        output=output,
        rows_shown=_ROWS.value,
        num_workers=_WORKERS.value,
        pipeline_options=_BEAM.value,
        part=part,
    )


if __name__ == "__main__":
    cli.run(main, native_log="3")
