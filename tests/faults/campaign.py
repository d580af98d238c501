"""The runs of a soak: in one mode, killed at every moment and then at random."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pathlib
import random
import shutil
import subprocess
import sys
import time

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import config_file, strategy_table
from pipeline.faults import launched, targets
from pipeline.records import builds
from tests import small_mnist
from tests.faults import injected, moments, verdict, witness
from tests.faults.launched import LaunchedRun
from tests.pipeline.process_help import ROOT, child_environment

# By mode, the settings that it is soaked with.
SIZES = {
    "multi_worker_mirrored": ("cluster.workers=1",),
    "parameter_server": ("cluster.workers=2", "cluster.ps=2"),
    "parameter_server_sync": ("cluster.workers=1", "cluster.ps=1"),
    "parameter_server_strategy": ("cluster.workers=2", "cluster.ps=2"),
}
_SETTINGS = (
    *witness.SETTINGS,
    f"train.hooks=[{injected.HOOK}]",
    "train.batch_size=32",
    "train.save_steps=10",
    "train.summary_steps=1000",
    "eval.throttle_seconds=20",
)
# Of a run, about; pause after each step of a process, in seconds.
_STEPS, _PACE = 2000, 0.01
_RECORDS = small_mnist.TRAIN * 95 // 100  # of an epoch, about
_SHORT = 45  # steps of a run whose final save is what matters
_PROGRESS = 10  # steps that training must advance between two kills
_DELAY = 1.0  # seconds that a random kill waits at most after that
_PAUSED, _PAUSE = 0.5, 0.2  # share of kills before which some process pauses; seconds
_SHOWN_EVERY = 10.0  # seconds


@dataclasses.dataclass
class Tally:
    """What was done to one mode, and what became of it."""

    mode: str
    kills: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    verdicts: list[verdict.Verdict] = dataclasses.field(default_factory=list)
    lost: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)


def prepare(folder: pathlib.Path) -> None:
    """Makes the job `small.yaml` in `folder`, and its records."""
    small_mnist.write(folder)
    command = [sys.executable, "-m", "preprocessing.main"]
    command += [f"--config={folder / 'small.yaml'}", f"--storage={folder}"]
    subprocess.run(command, cwd=ROOT, env=child_environment(), check=True, capture_output=True)


class Soak:
    """The runs of one mode, one after the other."""

    def __init__(self, folder: pathlib.Path, tally: Tally, seed: int) -> None:
        self._folder, self._tally = folder, tally
        self._rng = random.Random(f"{seed} {tally.mode}")
        job = self._config(_steps(_STEPS))
        self._counts = topology.role_counts(job.cluster)
        # Whole ones, so that the last is read to its end.
        epochs = round(_STEPS * topology.examples_per_step(job) / _RECORDS)
        self._length = f"train.steps=null train.epochs={epochs}"
        self._began, self._shown = time.monotonic(), 0.0
        self._runs = 0

    def _settings(self, length: str) -> list[str]:
        mode = self._tally.mode
        return [f"cluster.strategy={mode}", *SIZES[mode], *_SETTINGS, *length.split()]

    def _config(self, length: str) -> config.Config:
        return config_file.load(str(self._folder / "small.yaml"), self._settings(length))

    def _new_run(self, length: str, faults: list[dict]) -> LaunchedRun:
        self._runs += 1
        name = f"{self._tally.mode}-{self._runs}"
        config_path = str(self._folder / "small.yaml")
        run = LaunchedRun(self._folder, name, config_path, self._settings(length))
        run.set_faults(faults, _PACE)
        run.start()
        return run

    def run(self, kills: int, matrix: bool) -> None:
        """Soaks the mode with so many random kills, after the matrix if wanted."""
        if matrix:
            self.matrix()
        self.randomly(kills)

    def matrix(self) -> None:
        """Runs in which every role is killed at every moment."""
        plans = matrix(self._config(_steps(1)), self._rng)
        number, done = sum(len(faults) for faults, _ in plans), 0
        for faults, steps in plans:
            run = self._new_run(_steps(steps), faults)

            def act(run=run, before=done) -> None:
                now = before + _fired(run)
                self._show(run, f"{now} of {number} faults{self._remaining(now, number)}")

            lost = launched.follow(run, act, functools.partial(self._wrong, run))
            done += len(faults)
            self._count(run, faults, lost)
            self._examine(run, _steps(steps), lost)

    def _count(self, run: LaunchedRun, faults: list[dict], lost: bool) -> None:
        for at, fault in enumerate(faults):
            fired = run.run.read(f"fired-{at}.json")
            if fired and "ended" not in fired:
                self._tally.kills[_role(fault["target"])] += 1 + bool(fault.get("again"))
            elif not fired and not lost:
                self._wrong(run, f"never came to {fault}")

    def randomly(self, kills: int) -> None:
        """Runs in which random processes are killed from outside, until there were `kills`."""
        self._began, before = time.monotonic(), sum(self._tally.kills.values())
        while (done := sum(self._tally.kills.values()) - before) < kills:
            run = self._new_run(self._length, [])
            together = strategy_table.STRATEGIES[self._tally.mode].synchronous
            killer = Killer(
                run, self._counts, self._rng, kills - done, self._tally.kills, together=together
            )

            def act(run=run, killer=killer) -> None:
                killer.act()
                now = sum(self._tally.kills.values()) - before
                self._show(run, f"{now} of {kills} kills{self._remaining(now, kills)}")

            lost = launched.follow(run, act, functools.partial(self._wrong, run))
            self._examine(run, self._length, lost)

    def _remaining(self, done: int, kills: int) -> str:
        if not done:
            return ""
        each = (time.monotonic() - self._began) / done
        return f", {each:.1f} s each, about {each * (kills - done) / 60:.0f} min left"

    def _wrong(self, run: LaunchedRun, what: str) -> None:
        line = f"{run.run.name}: {what}"
        print(line, flush=True)
        self._tally.wrong.append(line)

    def _examine(self, run: LaunchedRun, length: str, lost: bool) -> None:
        if lost:
            self._tally.lost += 1
            return
        job = self._config(length)
        records = builds.find_run_build(str(self._folder), run.run, job.name)
        found = verdict.examine(run.run.path, records, job, pids=(), workers_lost=run.workers_lost)
        for what in found.wrong:
            self._wrong(run, what)
        self._tally.verdicts.append(found)
        if not found.wrong:
            shutil.rmtree(run.run.path)

    def _show(self, run: LaunchedRun, what: str) -> None:
        if time.monotonic() - self._shown > _SHOWN_EVERY:
            self._shown = time.monotonic()
            print(f"{run.run.name}: step {run.top_step:,}, {what}", flush=True)


def _steps(steps: int) -> str:
    return f"train.steps={steps}"


def _fired(run: LaunchedRun) -> int:
    return sum(1 for _ in pathlib.Path(run.run.path).glob("fired-*[0-9].json"))


def _role(target: str) -> str:
    return target if target == "fork-server" else target.partition("-")[0]


class Killer:
    """Kills random processes of one run from outside, each after training has advanced."""

    def __init__(
        self,
        run: LaunchedRun,
        counts: dict[str, int],
        rng: random.Random,
        most: int,
        kills: collections.Counter,
        *,
        together: bool = False,
        delay: float = _DELAY,
    ) -> None:
        """Kills `most` times and counts in `kills`, by role; `together` says that all processes
        that train are restarted as one, `delay` how many seconds a kill may wait for its time."""
        self._run, self._rng, self._most, self._kills = run, rng, most, kills
        self._delay = delay
        self._targets = targets.Targets(counts, rng, together=together)
        self._beyond, self._at = _PROGRESS, 0.0
        self._target = ""

    def act(self) -> None:
        """Kills, if it is time to."""
        run = self._run
        if not self._most or run.top_step < self._beyond:
            return
        if not self._target:
            self._target = self._targets.draw()
            self._at = time.monotonic() + self._rng.uniform(0, self._delay)
            # Some are found in the middle of what one of them has been late for.
            if self._rng.random() < _PAUSED:
                run.pause(self._rng.choice(self._targets.tasks), _PAUSE)
        if time.monotonic() < self._at or not run.kill(self._target):
            return
        self._kills[_role(self._target)] += 1
        self._targets.note(self._target)
        self._beyond, self._target = run.top_step + _PROGRESS, ""
        self._most -= 1
        if not self._most:
            run.set_pace(0.0)


def matrix(job: config.Config, rng: random.Random) -> list[tuple[list[dict], int]]:
    """Returns runs, as their faults and steps, with a fault for every role at every moment.

    The final save has a run for each role: what is killed then may have been saved completely.
    """
    per_epoch = _RECORDS // topology.examples_per_step(job)
    counts = topology.role_counts(job.cluster)
    targets = [f"{role}-0" for role in (topology.WORKER, topology.CHIEF) if counts[role]]
    targets += ["launcher", *(["ps-0"] if counts[topology.PS] else []), "all"]
    faults, at = [], 30
    for moment in ("step", *moments.MOMENTS, "epoch", "twice"):
        rng.shuffle(targets)
        for target in targets:
            at += 20
            # Chiefs alone save everywhere.
            own = target.startswith(topology.WORKER) and moment != moments.SAVING
            fault = {"by": target if own else "chief-0", "at": at, "do": "kill", "target": target}
            if moment == "epoch":
                fault["at"] = at = -(-at // per_epoch) * per_epoch
            elif moment == "twice":
                fault["again"] = True
            else:
                fault["when"] = moment
            faults.append(fault)
    finals = [
        {"by": "chief-0", "at": _SHORT, "do": "kill", "target": target, "when": moments.SAVING}
        for target in targets
    ]
    return [(faults, at + 60), *(([fault], _SHORT) for fault in finals)]
