"""Predictions with an exported model, from raw rows to a file: the whole of `make predict`.

The file of predictions is the last to appear. Dead letters are next to it, also if there are too
many of them for predictions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
import time
from collections.abc import Callable, Sequence

from pipeline import config, errors, storage
from pipeline.config import labels_config
from pipeline.console import figures, progress, terminal
from pipeline.runs import exported
from pipeline.runs.run_folder import RunFolder
from preprocessing.dead_letters import letter_files
from preprocessing.rows import undated
from preprocessing.runners import worker_files
from preprocessing.runners.beam_import import import_beam
from preprocessing.sources.base import Chunk
from serving.batch import answers, outputs, part_files
from serving.batch.inputs import Asked

# Rows the model is asked for at a time, unless they are images; these are evaluated in such batches
# as memory has room for.
_TABLE_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Output:
    """Where predictions go. What is `new` must not be there yet."""

    path: str
    format: str
    new: bool

    @property
    def dead_letters(self) -> str:
        """The file of rows without a prediction, if there are any."""
        return f"{self.path.removesuffix(f'.{self.format}')}.dead_letter.jsonl"


def choose_output(
    run: RunFolder,
    export: exported.Export,
    given: str | None,
    *,
    path: str | None,
    kind: str | None,
    part: str | None = None,
) -> Output:
    """Returns where to write predictions for the input `given`, or for the test split.

    Without a `path`, it is one in the run's folder that only the same model and input have, so it
    is made again. Raises `UsageError` for a `path` that exists.
    """
    if path:
        path = storage.make_absolute(path)
        found = Output(path, outputs.format_of(path, kind), new=True)
        if storage.exists(path):
            raise outputs.exists_error(path)
        return found
    name, kind = "test", kind or "csv"
    if given is not None:
        place = storage.make_absolute(given).rstrip("/")
        stem = re.sub(r"[^\w-]", "_", place.rpartition("/")[2].partition(".")[0])
        name = f"{stem}-{config.digest({'input': place})[:8]}"
    name = f"{part}-{name}" if part else name
    folder = storage.join(run.path, "predictions", f"{export.kind}-{export.step}")
    return Output(storage.join(folder, f"{name}.{kind}"), kind, new=False)


def predict(
    job: config.Config,
    export: exported.Export,
    asked: Asked,
    *,
    output: Output,
    rows_shown: int = 10,
    num_workers: int = 1,
    pipeline_options: Sequence[str] = (),
    part: str | None = None,
) -> None:
    """Predicts for all rows `asked`, with one part of the model or all, and prints how it went.

    Raises `DataError` if more rows are bad than the budget allows, or none is left; `UsageError` or
    `RetryableError` for a place that cannot be written to.
    """
    started = time.monotonic()
    try:
        with errors.name_setting("OUTPUT="), part_files.make_temporary_folder(output.path) as parts:
            storage.remove(output.dead_letters)  # of an earlier run
            _answer(
                job,
                export,
                asked,
                parts=parts,
                num_workers=num_workers,
                pipeline_options=pipeline_options,
                part=part,
            )
            total = _keep_dead_letters(asked, output, parts)
            _write(export, asked, output, parts=parts, rows_shown=rows_shown)
    except OSError as error:
        raise errors.translate_os_error(
            error, f"cannot write {output.path!r}", place_of="OUTPUT="
        ) from None
    seconds = time.monotonic() - started
    made = total.read - total.rejected
    rate = f"{total.read / seconds:,.{0 if total.read >= 10 * seconds else 1}f}"
    print(f"{made:,} predictions in {seconds:.1f} s ({rate} rows/s)")
    print(f"predictions {terminal.display_path(output.path)}", flush=True)


def _answer(
    job: config.Config,
    export: exported.Export,
    asked: Asked,
    *,
    parts: str,
    num_workers: int,
    pipeline_options: Sequence[str],
    part: str | None,
) -> None:
    """Has workers predict for all rows, into files in the folder `parts`."""
    chunks = [chunk for split in asked.data.inputs for chunk in asked.source.plan(split)]
    paths = _list_paths(asked)
    size = figures.size(sum(map(storage.size, paths)))
    print(f"reading {_describe_files(paths)}: {size} of {asked.data.source}", flush=True)
    for remark in asked.source.remarks:
        print(f"warning: {remark}", flush=True)
    import_beam(cloud=bool(pipeline_options))
    from preprocessing.runners import beam_options
    from serving.batch import beam_stage

    images = any(column.is_image for column in asked.model.values())
    batch = job.eval.batch_size if images else max(_TABLE_ROWS, job.eval.batch_size)
    several = {
        name: (one.label, export.classes_of(name)) for name, one in labels_config.views(job).items()
    }
    answering = beam_stage.PredictionModel(
        export.path, export.classes, job.label, batch, several, part
    )
    options = beam_options.build(pipeline_options, num_workers)
    with _report_rows(parts, chunks), beam_options.silence_tracebacks(options):
        beam_stage.run(chunks, asked, answering, folder=parts, options=options)


def _describe_files(paths: Sequence[str]) -> str:
    first = terminal.display_path(paths[0])
    return first if len(paths) == 1 else f"{len(paths):,} files, {first} first"


def _report_rows(folder: str, chunks: Sequence[Chunk]) -> contextlib.AbstractContextManager[None]:
    """Shows how many rows are answered while the body runs."""
    rows = None if any(c.rows is None for c in chunks) else sum(c.rows or 0 for c in chunks)
    return worker_files.watch_files(folder, functools.partial(_report, folder, rows))


def _report(folder: str, rows: int | None, more: Callable[[], bool]) -> None:
    from serving.batch import beam_stage

    with progress.Progress("predicting", rows, unit="rows") as bar:
        while more():
            bad = letter_files.count_letters_written(folder)
            done = beam_stage.count_answered_rows(folder)
            bar.reach(done + bad, f"{bad:,} dead letters" if bad else "")


def _keep_dead_letters(asked: Asked, output: Output, parts: str) -> letter_files.Tally:
    """Keeps the dead letters, says what they are, and fails if they are too many or all."""
    total = letter_files.Tally()
    for tally in letter_files.collect(parts, lambda _: output.dead_letters).values():
        total.add(tally)
    where = _describe_files(_list_paths(asked))
    for line in undated.format_warnings(total.undated, asked.dates):
        print(f"warning: {line}")
    if not total.read:
        raise errors.DataError(f"{where}: no rows")
    if total.rejected:
        print(f"{total.rejected:,} of {total.read:,} rows are dead letters:")
        print("\n".join(f"  {line}" for line in total.format_lines()))
        print(f"see {terminal.display_path(output.dead_letters)}", flush=True)
    letter_files.check_total(total, asked.data, output.dead_letters)
    if total.rejected == total.read:
        raise errors.DataError(
            f"{where}: none of {total.read:,} rows is left. They are in {output.dead_letters!r}"
        )
    return total


def _write(
    export: exported.Export, asked: Asked, output: Output, *, parts: str, rows_shown: int
) -> None:
    """Puts the predictions together; shows the first, and how they agree with labels."""
    from serving.batch import beam_stage

    agreements = beam_stage.read_agreements(parts)
    files = beam_stage.list_parts(parts)
    found = outputs.read_tables(files, labels=any(one.known for one in agreements.values()))
    first = next(found)
    everything = itertools.chain([first], found)
    outputs.write(everything, output.format, output.path, new=output.new)
    print(answers.render(first, rows_shown))
    for label, agreement in agreements.items():
        if line := agreement.format_line(export.classes_of(label or None)):
            print(f"{label}: {line}" if label else line)
        for warning in agreement.format_warnings():
            print(f"warning: {label}: {warning}" if label else f"warning: {warning}")


def _list_paths(asked: Asked) -> list[str]:
    return [file.path for file in asked.source.files()]
