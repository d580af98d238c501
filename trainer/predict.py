"""Predicts with the exported model of a run: on its test split, or on one PNG or IDX file.

  python -m trainer.predict --run=NAME --input=digit.png     the newest run without --run
  make predict [RUN=name] [INPUT=file]

Only the SavedModel is used, as a server would: no code of the model, no checkpoint.
"""

from __future__ import annotations

import os

from absl import flags

from pipeline import cli, errors, export_files, run_folder, storage, versions

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")
_INPUT = flags.DEFINE_string("input", None, "A PNG or IDX file; the test split if empty.")
_EXPORT = flags.DEFINE_enum("export", "final", ["final", "best"], "Which exported model.")
_ROWS = flags.DEFINE_integer("rows", 10, "Predictions to show.", lower_bound=1)


def main() -> None:
    """Prints the first predictions, and the accuracy where the labels are known."""
    versions.require_estimators()
    run = run_folder.find_run(_STORAGE.value, _RUN.value or None)
    result = run.read(run_folder.RESULT)
    if result is None or not result["exports"].get(_EXPORT.value):
        raise errors.UsageError(
            f"run {run.name!r}: has no {_EXPORT.value} export yet; let it finish with make train"
        )
    path = result["exports"][_EXPORT.value]
    if _INPUT.value and not storage.exists(_INPUT.value):
        raise errors.UsageError(f"--input {_INPUT.value!r}: no such file")
    from trainer import prediction

    wanted = result.get("sha256", {}).get(_EXPORT.value)
    if wanted:
        export_files.verify(path, wanted)
    job = run.read_config()
    records = run_folder.records_folder(_STORAGE.value, job.name)
    if _INPUT.value:
        examples = prediction.from_file(_INPUT.value, job)
    else:
        examples = prediction.from_split("test", job, records)
    print(f"model {path}")
    print(prediction.table(prediction.predict(path, examples), examples, _ROWS.value))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    cli.run(main)
