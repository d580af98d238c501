"""What looking at runs takes: `report` and `compare` of a long run, `runs` over many, recording.

A run of a few steps is trained and made long by its files: events of 10^6 steps, and the status,
account and history of 20 processes. The seconds are those of whole commands, with the start of
Python and, for `compare`, of TensorFlow. What recording costs is counted inside a run
(`benchmarks.recording`), as processors and other work change rates by more than a percent.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.result import Result
from pipeline.records import tfrecord
from pipeline.storage import strict_json

STEPS, EVERY, PROCESSES, RUNS = 1_000_000, 100, 20, 1_000
_SAVE = 1000  # steps between two evaluations
_SERVERS = 2
_SMALL = (
    "begun.json", "config.yaml", "run.json", "best.json", "RESULT.json", "saved.json",
    "records.json",
)  # fmt: skip


def run(storage_root: str) -> list[Result]:
    """Makes the runs, and takes the time of each command."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        root = pathlib.Path(folder)
        recorded = [_measure_recording(root, strategy) for strategy in ("none", "parameter_server")]
        for name in ("a", "b"):
            _train(root, name, "none", steps=40)
            lengthen(root / "runs" / name)
        report = _time_command(root, "report", "--run=a")
        compare = _time_command(root, "compare", "--a=a", "--b=b")
        multiply(root / "runs" / "a", RUNS)
        listed = _time_command(root, "runs")
    what = f"limit, of {STEPS:,} steps and {PROCESSES} processes"
    gap = "see python -X importtime and cProfile of the command"
    return [
        Result("operate report", report, "s", against=10, goal="<= 1", peer=what, gap=gap),
        Result("operate compare", compare, "s", against=10, goal="<= 1", peer=what, gap=gap),
        Result(
            "operate runs", listed, "s", against=2, goal="<= 1", peer=f"limit, {RUNS:,} runs",
            gap=gap,
        ),
        *(
            Result(
                f"recording {strategy}", 100 * share, "% of time", against=1, goal="<= 1",
                peer="limit, of steps and the hooks between them", gap="steps as short as these",
            )
            for strategy, share in zip(("none", "parameter_server"), recorded, strict=True)
        ),
    ]  # fmt: skip


def _train(root: pathlib.Path, name: str, strategy: str, *, steps: int, hook: str = "") -> None:
    command = [sys.executable, "-m", "pipeline.launch", "--config=mnist", f"--run={name}"]
    settings = [f"cluster.strategy={strategy}", f"train.steps={steps}", f"train.save_steps={steps}"]
    settings += [f"train.hooks=[{hook}]"] if hook else []
    command += [f"--storage={root}", *(f"--set={one}" for one in settings)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.getcwd(),
        "PYTHON_RECORDING": str(root / f"{name}.json"),
    }
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def _measure_recording(root: pathlib.Path, strategy: str) -> float:
    """Returns the share of the time of training that recording takes, in the chief."""
    name = f"recorded-{strategy}".replace("_", "-")
    _train(root, name, strategy, steps=800, hook="benchmarks.recording:Recording")
    found = json.loads((root / f"{name}.json").read_text())
    print(f"recording, {strategy}: {found}", flush=True)
    return float(found["recording"] / found["training"])


def _time_command(root: pathlib.Path, command: str, *words: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pipeline", command, f"--storage={root}", *words],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def lengthen(run: pathlib.Path) -> None:
    """Makes a run one of many steps and processes, by its files."""
    record = json.loads((run / "run.json").read_text())
    trainers = PROCESSES - _SERVERS - 1
    tasks = ["chief-0", *(f"worker-{n}" for n in range(trainers - 1)), "evaluator-0"]
    tasks += [f"ps-{n}" for n in range(_SERVERS)]
    counts = {"chief": 1, "worker": trainers - 1, "ps": _SERVERS, "evaluator": 1}
    _rewrite(
        run / "run.json", {"topology": counts, "launches": 5, "restarts": _invent_restarts(record)}
    )
    status = json.loads((run / "status" / "chief-0.json").read_text())
    [account] = (json.loads(path.read_text()) for path in (run / "time").iterdir())
    for task in tasks:
        _write(run / "status" / f"{task}.json", {**status, "task": task})
        for start in range(5):  # each was lost four times
            began = account["began"] + 0.001 * start
            path = run / "time" / f"{task}-{1000 * began:.0f}.json"
            _write(path, {**account, "task": task, "began": began})
    samples = [
        {"time": record["started"] + n, "tasks": {task: [n * 3000, 900.0 + n] for task in tasks}}
        for n in range(300)
    ]
    _write(run / "history.json", {"interval": 3600.0, "samples": samples})
    _write_events(run, EVERY)
    _write_events(run / "eval_eval", _SAVE)


def _invent_restarts(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns eighty restarts of a run."""
    began = record["started"]
    return [
        {"role": "worker", "index": n % 16, "cause": "exit code -9", "step": 10_000 * n,
         "time": began + n, "seconds_to_next_step": 5.0, "steps_lost": 0}
        for n in range(80)
    ]  # fmt: skip


def _rewrite(path: pathlib.Path, changes: dict[str, Any]) -> None:
    _write(path, {**json.loads(path.read_text()), **changes})


def _write(path: pathlib.Path, content: Any) -> None:
    path.write_text(strict_json.dumps(content, indent=1), encoding="utf-8")


def _write_events(folder: pathlib.Path, every: int) -> None:
    """Adds a file with the last summaries of a folder, again and again, `every` some steps."""
    from tensorboard.compat.proto import event_pb2, summary_pb2

    found: dict[str, Any] = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for payload in tfrecord.read(str(path)):
            event = event_pb2.Event.FromString(payload)
            found |= {value.tag: value for value in event.summary.value}
    values = [v for v in found.values() if v.WhichOneof("value") == "simple_value"]
    # What there would be of each process.
    for number in range(PROCESSES):
        value = summary_pb2.Summary.Value(tag=f"examples_per_second/worker-{number}")
        value.simple_value = 900.0 + number
        values.append(value)
    path = folder / "events.out.tfevents.9999999999.long"
    with path.open("wb") as file:
        for event in _build_summaries(values, every):
            file.write(tfrecord.frame(event.SerializeToString()))


def _build_summaries(values: list[Any], every: int) -> Iterator[Any]:
    from tensorboard.compat.proto import event_pb2, summary_pb2

    now = time.time()
    for step in range(every, STEPS + 1, every):
        summary = summary_pb2.Summary(value=values)
        yield event_pb2.Event(wall_time=now + step, step=step, summary=summary)
        if step % _SAVE == 0:
            saved = event_pb2.SessionLog(status=event_pb2.SessionLog.CHECKPOINT)
            yield event_pb2.Event(wall_time=now + step, step=step, session_log=saved)


def multiply(run: pathlib.Path, count: int) -> None:
    """Copies what lists of runs read of a run so many times."""
    for number in range(count):
        copy = run.parent / f"copy-{number}"
        copy.mkdir()
        for name in _SMALL:
            if (run / name).exists():
                shutil.copy(run / name, copy / name)
        shutil.copytree(run / "status", copy / "status")
