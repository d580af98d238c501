"""Predictions with an exported model, from raw rows to a file: the whole of `make predict`.

The file of predictions is the last to appear. Dead letters are beside it, also if there are too
many of them for predictions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import threading
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipeline import config, errors, exported, progress, storage
from pipeline.run_folder import RunFolder
from preprocessing import answers, dead_letters, layout, prediction_output
from preprocessing.job import import_beam
from preprocessing.prediction_input import Asked
from preprocessing.sources.base import Chunk

# Rows the model is asked for at a time, unless they are images; these are evaluated in such batches
# as memory has room for.
_TABLE_ROWS = 4096
# Seconds between two looks at how far the workers are.
_POLL, _REMOTE_POLL = 0.2, 2.0


@dataclasses.dataclass(frozen=True)
class Output:
    """Where predictions go. What is `new` must not be there yet."""

    path: str
    format: str
    new: bool

    @property
    def parts(self) -> str:
        """The folder of what workers have written, gone at the end."""
        return f"{self.path}.parts"

    @property
    def dead_letters(self) -> str:
        """The file of rows without a prediction, if there are any."""
        return f"{self.path.removesuffix(f'.{self.format}')}.dead_letter.jsonl"


def output(
    run: RunFolder,
    export: exported.Export,
    given: str | None,
    path: str | None,
    kind: str | None,
) -> Output:
    """Returns where to write predictions for the input `given`, or for the test split.

    Without a `path`, it is one in the run's folder that only the same model and input have, so it
    is made anew. Raises `UsageError` for a `path` that exists.
    """
    if path:
        path = storage.absolute(path)
        found = Output(path, prediction_output.format_of(path, kind), new=True)
        if storage.exists(path):
            raise prediction_output.taken(path)
        return found
    name, kind = "test", kind or "csv"
    if given is not None:
        place = storage.absolute(given).rstrip("/")
        stem = re.sub(r"[^\w-]", "_", place.rpartition("/")[2].partition(".")[0])
        name = f"{stem}-{config.digest({'input': place})[:8]}"
    folder = storage.join(run.path, "predictions", f"{export.kind}-{export.step}")
    return Output(storage.join(folder, f"{name}.{kind}"), kind, new=False)


def predict(
    job: config.Config,
    export: exported.Export,
    asked: Asked,
    output: Output,
    *,
    rows_shown: int = 10,
    num_workers: int = 1,
    pipeline_options: Sequence[str] = (),
) -> None:
    """Predicts for all rows `asked`, and prints how it went.

    Raises `DataError` if more rows are bad than the budget allows, or none is left; `UsageError` or
    `RetryableError` for a place that cannot be written to.
    """
    started = time.monotonic()
    try:
        storage.makedirs(output.parts)
        with layout.locked(output.parts):
            _empty(output)
            try:
                _run(job, export, asked, output, num_workers, pipeline_options)
                _finish(export, asked, output, rows_shown, time.monotonic() - started)
            finally:
                storage.remove(output.parts)
    except OSError as error:
        raise errors.from_os_error(error, f"cannot write {output.path!r}") from None


def _empty(output: Output) -> None:
    """Removes what a killed run, or one with other rows, has left."""
    for name in storage.listdir(output.parts):
        if not name.startswith(".lock"):
            storage.remove(storage.join(output.parts, name))
    storage.remove(output.dead_letters)


def _run(
    job: config.Config,
    export: exported.Export,
    asked: Asked,
    output: Output,
    num_workers: int,
    pipeline_options: Sequence[str],
) -> None:
    chunks = [chunk for split in asked.data.inputs for chunk in asked.source.plan(split)]
    paths = _paths(asked)
    size = sum(map(storage.size, paths)) / 1e6
    print(f"reading {_listed(paths)}: {size:,.1f} MB of {asked.data.source}", flush=True)
    import_beam()
    from preprocessing import beam_options, prediction_stage

    images = any(column.is_image for column in asked.model.values())
    batch = job.eval.batch_size if images else max(_TABLE_ROWS, job.eval.batch_size)
    answering = prediction_stage.Answering(export.path, export.classes, job.label, batch)
    options = beam_options.build(pipeline_options, num_workers)
    with _reporting(output.parts, chunks), beam_options.quiet(options):
        prediction_stage.run(chunks, asked, answering, output.parts, options)


def _listed(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths):,} files, {paths[0]} first"


@contextlib.contextmanager
def _reporting(folder: str, chunks: Sequence[Chunk]) -> Iterator[None]:
    """Shows progress while the body runs, by looking at the files that workers leave."""
    rows = None if any(c.rows is None for c in chunks) else sum(c.rows or 0 for c in chunks)
    finished = threading.Event()
    thread = threading.Thread(target=_report, args=(folder, rows, finished), daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _report(folder: str, rows: int | None, finished: threading.Event) -> None:
    from preprocessing import prediction_stage

    poll = _REMOTE_POLL if storage.is_remote(folder) else _POLL
    with progress.Progress("predicting", rows, unit="rows") as bar:
        while not finished.wait(poll):
            bad = dead_letters.letters_written(folder)
            done = prediction_stage.rows_answered(folder)
            bar.reach(done + bad, f"{bad:,} dead letters" if bad else "")


def _finish(
    export: exported.Export, asked: Asked, output: Output, rows_shown: int, seconds: float
) -> None:
    """Judges the dead letters, writes the predictions, and says what they are."""
    from preprocessing import prediction_stage

    tallies = dead_letters.collect(output.parts, lambda _: output.dead_letters)
    total = dead_letters.Tally()
    for tally in tallies.values():
        total.add(tally)
    if not total.read:
        raise errors.DataError(f"{_listed(_paths(asked))}: no rows")
    if total.rejected:
        print(f"{total.rejected:,} of {total.read:,} rows are dead letters:")
        print("\n".join(f"  {line}" for line in total.lines()))
        print(f"see {output.dead_letters}", flush=True)
    dead_letters.check_total(total, asked.data, output.dead_letters)
    if total.rejected == total.read:
        raise errors.DataError(f"{_listed(_paths(asked))}: none of {total.read:,} rows is left")
    agreement = prediction_stage.agreement(output.parts)
    parts = prediction_stage.parts(output.parts)
    found = prediction_output.tables(parts, labels=bool(agreement.rows))
    first = next(found)
    prediction_output.write(
        itertools.chain([first], found), output.format, output.path, new=output.new
    )
    print(table(first, rows_shown))
    if line := agreement.line(export.classes):
        print(line)
    rows = total.read - total.rejected
    print(f"{rows:,} predictions in {seconds:.1f} s ({total.read / seconds:,.0f} rows/s)")
    print(f"predictions {output.path}", flush=True)


def _paths(asked: Asked) -> list[str]:
    return [file.path for file in asked.source.files()]


def table(found: pa.Table, rows: int) -> str:
    """Shows the first predictions, beside their labels if these are known."""
    head = found.slice(0, rows)
    values = {name: head.column(name).to_pylist() for name in head.column_names}
    places = zip(values["file"], values["row"], strict=True)
    shown = {"row": [f"{path.rpartition('/')[2]}:{row}" for path, row in places]}
    kept = [n for n in values if n not in answers.PLACE and not n.startswith(answers.PROBABILITY)]
    shown |= {name: [_cell(value) for value in values[name]] for name in kept}
    chances = [n for n in values if n.startswith(answers.PROBABILITY)]
    if chances:
        best = (max(row) for row in zip(*(values[name] for name in chances), strict=True))
        shown["probability"] = [_cell(value) for value in best]
    widths = {name: max(map(len, [name, *cells])) for name, cells in shown.items()}
    lines = [list(shown), *zip(*shown.values(), strict=True)]
    wanted, said = values.get(answers.LABEL), values.get(answers.PREDICTION)
    marks = [""] * len(lines)
    if chances and wanted and said:
        marks[1:] = ["" if w in (None, s) else "  wrong" for w, s in zip(wanted, said, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths.values(), strict=True))
        + mark
        for line, mark in zip(lines, marks, strict=True)
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
