"""Where the time of real runs went, against what was planted and what was seen from outside."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from pipeline.reports import facts, goodput
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.faults import timed
from tests.pipeline.process_help import ROOT, child_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STEP = 0.1  # seconds
SINGLE = ("--strategy=none",)
TOGETHER = ("--strategy=multi_worker_mirrored", "--workers=1")
APART = ("--strategy=parameter_server", "--workers=1", "--ps=1")
CONFIG = """\
name: planted
data: {input_fn: "tests.faults.timed:rows"}
model: {name: "tests.faults.timed:model_fn"}
eval: {metric: loss, higher_is_better: false}
train:
  batch_size: 4
  summary_steps: 50
  hooks: ["tests.faults.timed:Pace"]
"""


@dataclasses.dataclass
class Seen:
    """What was seen of a run from outside, in Unix time."""

    run: RunFolder
    began: float
    ended: float = 0.0
    first_step: float = 0.0
    last_step: float = 0.0
    # When a process was killed, at which step, and when it had made a step again.
    # Seconds in which the chief evaluated between steps.
    evaluated: float = 0.0
    killed: list[tuple[float, int]] = dataclasses.field(default_factory=list)
    back: list[float] = dataclasses.field(default_factory=list)

    @property
    def shares(self) -> dict[str, float]:
        return {part.name: part.share for part in self.parts}

    @property
    def parts(self) -> list[goodput.CauseShare]:
        return facts.goodput_of(facts.gather(self.run))


def _train(
    folder: pathlib.Path, plan: dict, *flags: str, steps: int, saves: int, kills=(), code=0
) -> Seen:
    """Trains; kills the named task at each of the steps of `kills`, or stops the launcher."""
    config = folder / "planted.yaml"
    config.write_text(CONFIG)
    sets = (f"--set=train.steps={steps}", f"--set=train.save_steps={saves}")
    command = [sys.executable, "-m", "pipeline", "train", f"--config={config}", "--run=r"]
    environment = {**child_environment(), timed.VARIABLE: json.dumps(plan)}
    seen = Seen(RunFolder(str(folder / "output" / "runs" / "r")), time.time())
    with open(folder / "log", "a") as log:
        process = subprocess.Popen(
            [*command, f"--storage={folder}/output", *flags, *sets],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )
        _watch(seen, process, steps, list(kills))
    seen.ended = time.time()
    assert process.returncode == code, (folder / "log").read_text()[-3000:]
    return seen


def _watch(seen: Seen, process, last: int, kills: list[tuple[str, int]]) -> None:
    pid, looked = None, time.time()
    while process.poll() is None:
        time.sleep(0.02)
        before, looked = looked, time.time()
        with contextlib.suppress(Exception):  # files that are being written
            status = run_folder.read_statuses(seen.run)["chief-0"]
            if status.loss is None or status.time < seen.began:
                continue
            now = time.time()
            ended = status.step >= last or (run_folder.saved_step(seen.run) or 0) >= last
            if status.state != "training" and not ended:
                seen.evaluated += now - before
            seen.first_step = seen.first_step or now
            if len(seen.back) < len(seen.killed) and status.pid != pid:
                seen.back.append(now)
            if ended and not seen.last_step:
                seen.last_step = now
            if kills and status.pid != pid and status.step >= kills[0][1]:
                task, _ = kills.pop(0)
                if task == "launcher":
                    process.terminate()
                    continue
                target = run_folder.read_statuses(seen.run)[task]
                pid = status.pid
                seen.killed.append((time.time(), status.step))
                os.kill(target.pid, signal.SIGKILL)


def _check(seen: Seen, processes: int = 1, **expected: float) -> None:
    """Each cause is within ten points of the seconds of processes that are expected. Start-up and
    end are as seen from outside; what is left between them are steps that this machine was slow
    at, and there is nothing else."""
    left = processes * (seen.last_step - seen.first_step) - sum(expected.values())
    expected["slower_steps"] = expected.get("slower_steps", 0.0) + max(0.0, left)
    whole = processes * (seen.ended - seen.began)
    shares = dict.fromkeys(goodput.WHAT, 0.0)
    shares["start-up"] = processes * (seen.first_step - seen.began) / whole
    shares["end"] = processes * (seen.ended - seen.last_step) / whole
    shares |= {name.replace("_", " "): value / whole for name, value in expected.items()}
    found = seen.shares
    print({name: (round(found[name], 3), round(share, 3)) for name, share in shares.items()})
    assert sum(found.values()) == pytest.approx(1)
    for name, share in shares.items():
        assert found[name] == pytest.approx(share, abs=0.1), name


def test_a_run_without_faults(tmp_path):
    seen = _train(tmp_path, {"step": STEP}, *SINGLE, steps=150, saves=150)
    _check(seen, useful=150 * STEP)


def test_starved_input(tmp_path):
    """While the process is at a step the next batch is read, so it waits for the rest of it."""
    plan = {"step": STEP, "batch": 4 * STEP}
    seen = _train(tmp_path, plan, *SINGLE, steps=100, saves=100)
    _check(seen, useful=100 * STEP, input=100 * 3 * STEP)


def test_a_slow_disk_at_saving(tmp_path):
    seen = _train(tmp_path, {"step": STEP, "save": 2.0}, *SINGLE, steps=100, saves=20)
    _check(seen, useful=100 * STEP, saving=5 * 2.0, evaluation=seen.evaluated)


def test_all_wait_for_a_save_of_processes_that_step_together(tmp_path):
    plan = {"step": STEP, "save": 2.0}
    seen = _train(tmp_path, plan, *TOGETHER, steps=100, saves=20)
    _check(seen, 2, useful=2 * 100 * STEP, saving=2 * 5 * 2.0)


def test_a_slow_worker_is_not_waited_for_in_an_asynchronous_run(tmp_path):
    plan = {"step": STEP, "slow": {"worker-0": 2 * STEP}}
    seen = _train(tmp_path, plan, *APART, steps=300, saves=300)
    trained = seen.last_step - seen.first_step
    _check(seen, 2, useful=trained * 4 / 3, slower_steps=trained * 2 / 3)


def test_a_kill(tmp_path):
    kills = [("chief-0", 180)]
    seen = _train(tmp_path, {"step": STEP}, *TOGETHER, steps=300, saves=100, kills=kills)
    [(at, step)], [back] = seen.killed, seen.back
    _check(
        seen,
        2,
        evaluation=seen.evaluated,
        useful=2 * 300 * STEP,
        lost_work=2 * (step - 100) * STEP,
        recovery=2 * (back - at),
    )


def test_killed_twice_and_resumed_the_next_day(tmp_path):
    """The night, ten seconds of it, is not time of the run."""
    plan = {"step": STEP}
    kills = [("chief-0", 30), ("chief-0", 60), ("launcher", 90)]
    first = _train(tmp_path, plan, *SINGLE, steps=150, saves=1000, kills=kills, code=75)
    time.sleep(10)
    second = _train(tmp_path, plan, *SINGLE, steps=150, saves=1000)
    parts = {part.name: part.seconds for part in second.parts}
    both = (first.ended - first.began) + (second.ended - second.began)
    # Until a command says when it began, its interpreter starts.
    assert 0.9 * both < sum(parts.values()) < both + 1
    # Nothing was saved before a kill, and all at the stop.
    lost = sum(step for _, step in first.killed) * STEP
    recovery = sum(back - at for back, (at, _) in zip(first.back, first.killed, strict=True))
    assert parts["lost work"] == pytest.approx(lost, abs=0.1 * both)
    assert parts["recovery"] == pytest.approx(recovery, abs=0.1 * both)
    assert parts["useful"] == pytest.approx(150 * STEP, abs=0.1 * both)


def test_an_evaluation_that_takes_longer_than_training(tmp_path):
    seen = _train(tmp_path, {"step": STEP, "eval": 10.0}, *SINGLE, steps=40, saves=20)
    assert seen.evaluated > 10
    _check(seen, useful=40 * STEP, evaluation=seen.evaluated)


def test_four_workers_with_one_slow(tmp_path):
    plan = {"step": 2 * STEP, "slow": {"worker-1": 2 * STEP}}
    flags = ("--strategy=multi_worker_mirrored", "--workers=3")
    seen = _train(tmp_path, plan, *flags, steps=80, saves=80)
    more = 80 * 2 * STEP
    _check(seen, 4, useful=4 * more, waiting_for_others=3 * more, slower_steps=more)
