"""The commands as Python functions, for notebooks and scripts of your own.

    from pipeline import api
    run = api.train("mnist", settings={"train.steps": 500})
    print(run.metrics["test"]["accuracy"])

Each function runs a command in a process of its own, so that nothing here imports TensorFlow, and
returns what it has made as a frozen dataclass. What the command prints is printed here, unless
`quiet`. A command that fails raises the `PipelineError` of its exit code (`pipeline.errors`), with
its one line. A keyboard interrupt stops the command as Ctrl-C does; the same call continues.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline import errors, storage
from pipeline.jobs import job as jobs
from pipeline.records import builds, manifest
from pipeline.runs import run_folder, run_list, run_record, run_search
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json

# Split to metric to value.
Metrics = Mapping[str, Mapping[str, float]]
Settings = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Records:
    """A build of records: its `folder`, how many `records` each split has, and the SHA-256 of its
    manifest."""

    folder: str
    records: Mapping[str, int]
    sha256: str


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that has ended well. `metrics` are those of its final evaluation, `best` is
    {"step", "metric", "value", ...}, `exports` are the folders of SavedModels by kind."""

    name: str
    folder: str
    config: str
    status: str
    reason: str
    step: int | None
    metrics: Metrics
    best: Mapping[str, Any] | None
    exports: Mapping[str, str]
    seconds: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The value of a metric, and its 95 % confidence interval; `None` if that is unknown, also of
    records that are all alike. It may be too narrow if `few_carry` the value."""

    value: float
    low: float | None
    high: float | None
    few_carry: bool = False


@dataclasses.dataclass(frozen=True)
class Slice:
    """The metrics of the records with one value in a column, or of `all`; the baseline is always
    the most frequent label, or the mean."""

    name: str
    records: int
    metrics: Mapping[str, Estimate]
    baseline: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One checkpoint on one split: the model's own metrics, and slices with intervals."""

    step: int
    split: str
    metrics: Mapping[str, float]
    slices: tuple[Slice, ...]


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The file of predictions, and how many rows it has."""

    path: str
    rows: int


def preprocess(
    config: str,
    *,
    settings: Settings | None = None,
    storage_root: str = "output",
    num_workers: int = 1,
    force: bool = False,
    quiet: bool = False,
) -> Records:
    """Turns raw data into records, unless these exist; `settings` are those of `--set`, such as
    {"data.seed": 1}. Raises `UsageError` or `DataError`."""
    arguments = [f"--config={config}", f"--storage={storage_root}", *_overrides(settings)]
    arguments += [f"--num_workers={num_workers}", *(["--force"] if force else [])]
    _command("preprocess", arguments, quiet=quiet)
    name = jobs.plan(config, _texts(settings), run=None, storage_root=storage_root).config.name
    folder = builds.find_current(run_folder.records_folder(storage_root, name))
    found = manifest.read(folder)
    counts = {split: content.records for split, content in found.splits.items()}
    return Records(folder, counts, found.sha256)


def train(
    config: str,
    *,
    settings: Settings | None = None,
    run: str | None = None,
    storage_root: str = "output",
    strategy: str | None = None,
    workers: int | None = None,
    ps: int | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a job on this machine to its end, from raw data to exports; a finished run is only
    looked up. Raises the error of whatever stage fails."""
    short = jobs.cluster_overrides(strategy, workers, ps)
    wanted = jobs.plan(config, [*_texts(settings), *short], run=run, storage_root=storage_root)
    arguments = [f"--config={config}", f"--storage={storage_root}", f"--run={wanted.name}"]
    arguments += [*_overrides(settings), *(f"--set={one}" for one in short)]
    _command("train", arguments, quiet=quiet)
    return _run(wanted.run)


def evaluate(
    run: str | None = None,
    *,
    config: str | None = None,
    storage_root: str = "output",
    split: str | None = None,
    slices: Iterable[str] = (),
    checkpoint: str | int | None = None,
    quiet: bool = False,
) -> list[Evaluation]:
    """Evaluates a run again (the newest one, or the newest of a config) on the eval and test splits
    or one of them, at its newest checkpoint, a step, `best` or `all`."""
    found = run_search.find_run(storage_root, run, config, trained=True)
    given = {"split": split, "checkpoint": checkpoint, "slices": ",".join(slices)}
    arguments = [f"--run={found.name}", f"--storage={storage_root}"]
    arguments += [f"--{name}={value}" for name, value in given.items() if value not in (None, "")]
    _command("evaluate", arguments, quiet=quiet)
    content = strict_json.loads(storage.read_text(storage.join(found.path, "evaluation.json")))
    return [
        Evaluation(one["step"], one["split"], one["metrics"], tuple(map(_slice, one["slices"])))
        for one in content
    ]


def predict(
    run: str | None = None,
    input: str | None = None,
    *,
    config: str | None = None,
    output: str | None = None,
    storage_root: str = "output",
    export: str = "final",
    quiet: bool = False,
) -> Predictions:
    """Predicts with the exported model of a run: the raw rows of a file, or the test split without
    an `input`. The `output` is a file that must not exist; without one it is in the run's folder.
    """
    found = run_search.find_run(storage_root, run, config, trained=True)
    given = {"input": input, "output": output, "export": export}
    arguments = [f"--run={found.name}", f"--storage={storage_root}"]
    arguments += [f"--{name}={value}" for name, value in given.items() if value]
    printed = _command("predict", arguments, quiet=quiet)
    [path] = re.findall(r"^predictions (.+)$", printed, re.MULTILINE)[-1:]
    [rows] = re.findall(r"^([\d,]+) predictions in ", printed, re.MULTILINE)[-1:]
    return Predictions(path if "://" in path else os.path.abspath(path), int(rows.replace(",", "")))


def runs(*, storage_root: str = "output", config: str | None = None) -> list[run_list.Row]:
    """Returns all runs, or those of a config of that name, the newest first: name, config, status,
    step, best metric, when it started and how long it took."""
    return run_list.read(storage_root, now=time.time(), config=config)


def _run(folder: RunFolder) -> Run:
    record = run_record.read(folder)
    if record is None:
        raise errors.DataError(f"run {folder.name!r}: its run.json cannot be read")
    exports = {k: storage.join(folder.path, path) for k, path in record.exports.items() if path}
    return Run(
        folder.name,
        folder.path,
        record.config,
        record.state,
        record.reason,
        record.final_step,
        record.metrics,
        record.best,
        exports,
        record.seconds,
    )


def _slice(row: Mapping[str, Any]) -> Slice:
    metrics = {}
    for name, found in row["metrics"].items():
        low, high = (None if found.get("alike") else found.get(end) for end in ("low", "high"))
        metrics[name] = Estimate(found["value"], low, high, found.get("few_carry", False))
    return Slice(row["slice"], row["records"], metrics, row["baseline"])


def _texts(settings: Settings | None) -> list[str]:
    """Returns settings as `--set` takes them: JSON is YAML."""
    return [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]


def _overrides(settings: Settings | None) -> list[str]:
    return [f"--set={text}" for text in _texts(settings)]


def _command(name: str, arguments: Sequence[str], *, quiet: bool) -> str:
    """Runs a command and returns what it has printed. Raises the error of its exit code."""
    printed = []
    with (
        tempfile.TemporaryFile("w+") as trouble,
        subprocess.Popen(
            [sys.executable, "-m", "pipeline", name, *arguments],
            stdout=subprocess.PIPE,
            stderr=trouble,
            text=True,
            errors="replace",
            # A signal to this process group is not for it: it would count as a second one.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_search_path())},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            for line in process.stdout:
                printed.append(line)
                if not quiet:
                    print(line, end="", flush=True)
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)  # it saves; `with` waits for its end
            raise
        trouble.seek(0)
        text = trouble.read()
    if code:
        lines = [line for line in text.splitlines() if line.startswith("error: ")]
        last = lines[-1].removeprefix("error: ") if lines else text.strip()[-2000:]
        raise errors.build_from_exit_code(code, last or f"{name} ended with {code}")
    return "".join(printed)


def _search_path() -> list[str]:
    """Returns where this process finds modules, such as models of the user's own."""
    return [os.path.abspath(path) for path in sys.path]
