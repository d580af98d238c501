"""The first `make schema` and `make train` on ten public tables, against gradient boosting.

Both learn from the same rows and are judged, by scikit-learn, on the same others: by the metric
that the config proposes, as an error. That is the mean squared error of numbers, one less the area
under the ROC of two classes, and the share of wrong answers of more. The peer is
HistGradientBoosting as scikit-learn has it, with dates as numbers and texts as categories.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks import first_try_tables
from benchmarks.first_try_tables import Table
from benchmarks.result import Result
from pipeline import config
from pipeline.records import builds, tfrecord
from pipeline.runs import run_search

_RUN = "first"
_LIMIT = 120.0  # seconds
# Categories that the peer takes; of texts with more it gets their number.
_CATEGORIES = 255
_HEAD = (
    "| table, label | rows, test rows | error | constant | boosting | here | ratio "
    "| seconds, on processors |",
    "|---|---|---|---|---|---|---|---|",
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Errors of both, of the constant answer that is best, and the seconds of both commands: of
    the clock, and of all their processes on processors."""

    table: Table
    metric: str
    ours: float
    peer: float
    constant: float
    seconds: float
    processor: float
    rows: int
    test_rows: int


def run(storage_root: str) -> list[Result]:
    """Tries each table once."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        print(*_HEAD, sep="\n", flush=True)
        found = []
        for table in first_try_tables.TABLES:
            found.append(attempt(table, folder))
            print(_format_row(found[-1]), flush=True)
    return [row for outcome in found for row in _list_results(outcome)]


def attempt(table: Table, folder: str) -> Outcome:
    """Writes the table, a config and a model, and compares that with boosting."""
    raw = first_try_tables.write(table, folder)
    written = os.path.join(folder, f"{table.name}.yaml")
    name = f"{_RUN}-{table.name.lower()}"
    began, used = time.perf_counter(), _read_processor_seconds()
    _run_command(
        "preprocessing.infer_schema", f"--data={raw}", f"--out={written}", label=table.label
    )
    _run_command(
        "pipeline.launch",
        f"--config={written}",
        f"--storage={folder}",
        f"--run={name}",
        "--set=data.provenance=true",
    )
    seconds, processor = time.perf_counter() - began, _read_processor_seconds() - used
    run = run_search.find_run(folder, name, None)
    job = run.read_config()
    rows = {split: _read_rows(folder, run, job, split=split) for split in ("train", "test")}
    test = rows["test"]
    answers = _predict(folder, run.name, raw)
    data = first_try_tables.load_frame(table)
    truth = data[table.label].to_numpy()[test]
    learnt, of_peer = _train_boosting(table, data, rows)
    seen = data[table.label].to_numpy()[rows["train"]]
    if job.model.params.get("task") == "regression":
        ours = np.array([float(answers[row]["prediction"]) for row in test])
        errors = [_compute_squared_error(truth, a) for a in (ours, of_peer, np.mean(seen))]
        metric = "mse"
    elif len(learnt) == 2:
        ours = np.array([_read_probability(answers[row], learnt[1]) for row in test])
        errors = [
            _compute_area(truth == learnt[1], a) for a in (ours, of_peer[:, 1], np.zeros(len(test)))
        ]
        metric = "1 - auc"
    else:
        named = np.array([answers[row]["prediction"] for row in test])
        values, counts = np.unique(seen, return_counts=True)
        guesses = (named, learnt[of_peer.argmax(axis=1)], values[counts.argmax()])
        errors = [float(np.mean(truth != guess)) for guess in guesses]
        metric = "wrong"
    return Outcome(table, metric, *errors, seconds, processor, len(data), len(test))


def _read_processor_seconds() -> float:
    """Returns the processor seconds of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_command(module: str, *arguments: str, label: str = "") -> None:
    command = [sys.executable, "-m", module, *arguments, *([f"--label={label}"] if label else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")


def _read_rows(folder: str, run: Any, job: config.Config, *, split: str) -> np.ndarray:
    """Returns the numbers of the rows of a split, from 0."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    built = builds.find_run_build(folder, run, job.name)
    found = []
    for path in sorted(pathlib.Path(built).glob(f"{split}-*.tfrecord")):
        for record in tfrecord.read(str(path)):
            feature = tf.train.Example.FromString(record).features.feature["provenance/row"]
            found.append(feature.int64_list.value[0])
    return np.sort(np.array(found)) - 2  # the first row is the header


def _predict(folder: str, run: str, raw: str) -> list[dict[str, str]]:
    """Returns what the exported model answers to each row."""
    output = os.path.join(folder, f"{run}.csv")
    _run_command(
        "serving.predict",
        f"--storage={folder}",
        f"--run={run}",
        f"--input={raw}",
        f"--output={output}",
        "--export=best",
        "--error_budget=1",
        "--rows=0",
    )
    with open(output, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _train_boosting(table: Table, data: Any, rows: dict[str, np.ndarray]) -> tuple[np.ndarray, Any]:
    """Returns the classes, if it are these that are predicted, and answers to the test rows."""
    import pandas as pd
    import threadpoolctl
    from sklearn import ensemble

    x = data.drop(columns=table.label)
    for name in table.dates:
        unit = "s" if name in table.epoch else None
        moment = pd.to_datetime(x.pop(name), unit=unit, utc=True)
        x[name] = (moment - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
        for part in ("month", "dayofweek", "hour", "dayofyear"):
            x[f"{name}_{part}"] = getattr(moment.dt, part)
    for name in x.columns:
        if not pd.api.types.is_numeric_dtype(x[name]):
            values = x[name].astype("category")
            many = len(values.cat.categories) > _CATEGORIES
            x[name] = values.cat.codes if many else values
    y = data[table.label].to_numpy()
    train, test = rows["train"], rows["test"]
    # Threads of OpenMP that wait for each other spin, for minutes where other programs run.
    with threadpoolctl.threadpool_limits(1):
        if y.dtype.kind in "if":
            model = ensemble.HistGradientBoostingRegressor(random_state=0)
            return np.array([]), model.fit(x.iloc[train], y[train]).predict(x.iloc[test])
        model = ensemble.HistGradientBoostingClassifier(random_state=0)
        model.fit(x.iloc[train], y[train].astype(str))
        return model.classes_, model.predict_proba(x.iloc[test])


def _compute_squared_error(truth: np.ndarray, guess: Any) -> float:
    return float(np.mean(np.square(truth - guess)))


def _compute_area(truth: np.ndarray, score: np.ndarray) -> float:
    from sklearn import metrics

    return 1.0 - float(metrics.roc_auc_score(truth, score))


def _read_probability(answer: dict[str, str], value: Any) -> float:
    return float(answer[f"probability_{value}"])


def _list_results(found: Outcome) -> list[Result]:
    name = f"first try {found.table.name}"
    return [
        Result(
            name,
            found.ours,
            found.metric,
            against=found.peer,
            goal="<= 1.1",
            peer="HistGradientBoosting, same rows",
            gap="see docs/first_try.md",
        ),
        Result(
            f"{name} time",
            found.seconds,
            "s",
            against=_LIMIT,
            goal="<= 1",
            peer="limit of schema and train",
            gap="other work on the machine",
        ),
    ]


def _format_row(o: Outcome) -> str:
    """Returns a line of the table that the docs have."""
    return (
        f"| {o.table.name}, {o.table.label} | {o.rows:,}, {o.test_rows:,} | {o.metric} "
        f"| {o.constant:.4g} | {o.peer:.4g} | {o.ours:.4g} | {o.ours / o.peer:.2f} "
        f"| {o.seconds:.0f}, {o.processor:.0f} |"
    )
