"""The runs of `make chaos`: undisturbed ones, the disturbed one, and whether its end is right."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
import shutil
import time
from collections.abc import Callable, Iterable, Sequence

from pipeline import config, errors, versions
from pipeline.cluster import topology
from pipeline.config import own_code
from pipeline.console import progress
from pipeline.faults import actions, launched, metric_band, processes, promises
from pipeline.faults.clock import MovedClock
from pipeline.faults.disturber import Disturber
from pipeline.faults.draw import Fault
from pipeline.faults.launched import LaunchedRun
from pipeline.faults.metric_band import Band
from pipeline.faults.small_disk import SmallDisk
from pipeline.processes import isolation
from pipeline.records import builds, epochs
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord

# The file that says what the undisturbed runs next to it were made by.
_MADE_BY = "made-by"
# So many undisturbed runs decide whether a metric is wrong. By three, whose band is more than twice
# as wide, nearly every end would be right.
_DECIDING = 5


@dataclasses.dataclass(frozen=True)
class ChaosExperiment:
    """What is asked: the job with its `words` of the command, and a folder of its own."""

    job: config.Config
    words: Sequence[str]
    folder: pathlib.Path
    storage_root: str

    @property
    def undisturbed(self) -> pathlib.Path:
        """The storage of the undisturbed runs."""
        return self.folder / "undisturbed"

    def prepare(self) -> None:
        """Shares the records there are with the undisturbed runs; without any they make them. Those
        that were trained on other records, or by other code, are removed."""
        self.undisturbed.mkdir(parents=True, exist_ok=True)
        made_by, noted = self._describe_origin(), self.undisturbed / _MADE_BY
        runs = self.undisturbed / "runs"
        if runs.exists() and not (noted.exists() and noted.read_text("utf-8") == made_by):
            print("the code or the records have changed since the undisturbed runs: training again")
            shutil.rmtree(runs)
        noted.write_text(made_by, "utf-8")
        share_records(self.storage_root, str(self.undisturbed), self.job.name)

    def _describe_origin(self) -> str:
        """Names what a run is made by besides its config: code, and records."""
        records = run_folder.records_folder(self.storage_root, self.job.name)
        code = (versions.code_version(), own_code.version(self.job))
        return " ".join((*code, builds.find_current_name(records) or "none"))

    def make_disturbed_storage(self, seed: int) -> pathlib.Path:
        """Makes the storage of a disturbed run, empty but for its records."""
        root = self.folder / f"seed-{seed}"
        if root.exists():
            shutil.rmtree(root)
        root.mkdir(parents=True)
        share_records(str(self.undisturbed), str(root), self.job.name)
        return root


@dataclasses.dataclass(frozen=True)
class BaselineRun:
    """What came of an undisturbed run: `whole`, unless its seconds were used up before its last
    step. `rate` is in steps a second, while it trained."""

    path: str
    step: int
    value: float | None
    rate: float
    whole: bool


@dataclasses.dataclass
class Outcome:
    """What came of the disturbed run; `wrong` is empty if its end is right.

    By the ledger records were `doubled` or `missed`; from `uncounted` ones the model has learned
    without its knowledge, so they were read again. `bound` is the most there may be of both.
    """

    faults: list[Fault]
    path: str
    wrong: list[str]
    seconds: float = 0.0
    step: int | None = None
    wanted: int = 0
    exports: int = 0
    value: float | None = None
    doubled: int = 0
    bound: int = 0
    missed: int = 0
    uncounted: int = 0
    launches: int = 0
    restarts: int = 0

    @property
    def examined(self) -> bool:
        """True if the run has come to an end."""
        return self.launches > 0


def share_records(source: str, target: str, name: str) -> None:
    """Links the current build of the records `name` in one storage into another, if there is one.
    No file is copied, and none may be written in place."""
    records = run_folder.records_folder(source, name)
    build = builds.find_current_name(records)
    if not build or not builds.is_published(records, build):
        return
    there = run_folder.records_folder(target, name)
    for path in pathlib.Path(records, build).rglob("*"):
        copy = pathlib.Path(there, build, path.relative_to(os.path.join(records, build)))
        if path.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            actions.link(str(path), str(copy))
    builds.make_current(there, build)


def train_baseline(
    experiment: ChaosExperiment,
    name: str,
    settings: Iterable[str],
    *,
    label: str,
    seconds: float | None = None,
) -> BaselineRun:
    """Trains without faults, unless that has been done; `seconds` are those that training ends
    after, if it does. Raises what the run failed with."""
    run = LaunchedRun(experiment.undisturbed, name, [*experiment.words, *_set(settings)])
    wrong: list[str] = []
    run.start()
    total = experiment.job.train.steps if seconds is None else None
    with progress.Progress(label, total, unit="steps") as shown:
        lost = launched.follow(run, build_display(run, shown, seconds), wrong.append)
    if lost or wrong:
        raise errors.build_from_exit_code(
            _find_exit_code(run),
            f"the undisturbed run {run.run.path!r} {'; '.join(wrong)}. See {str(run.log)!r}",
        )
    record = _read_record(run)
    training = record.seconds.get("training") or 0.0
    step = record.final_step or 0
    return BaselineRun(
        path=run.run.path,
        step=step,
        value=metric_of(experiment.job, record),
        rate=step / training if training > 0 else 0.0,
        whole=not record.reason.startswith(run_folder.DEADLINE),
    )


def _find_exit_code(run: LaunchedRun) -> int:
    """Returns the exit code for an undisturbed run in which something was wrong: that of the last
    launcher that failed; of a run that is done all the same, that of a wrong end."""
    if not run.codes:
        return errors.RetryableError.exit_code
    return next((code for code in reversed(run.codes) if code), errors.ModelError.exit_code)


def _set(settings: Iterable[str]) -> list[str]:
    return [f"--set={setting}" for setting in settings]


def build_display(
    run: LaunchedRun,
    shown: progress.Progress,
    seconds: float | None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], None]:
    """Returns what shows the steps of a run when it is called, and how much is left of the
    `seconds` that it trains for at most."""
    began: float | None = None

    def show() -> None:
        nonlocal began
        if run.top_step <= shown.done:
            return
        began = clock() if began is None else began
        notes = []
        if seconds is not None:
            left = max(0.0, seconds - (clock() - began))
            notes = [f"at most {progress.duration(left)} left"]
        shown.reach(run.top_step, *notes)

    return show


def _read_record(run: LaunchedRun) -> RunRecord:
    record = run_record.read(run.run)
    if record is None:
        raise errors.DataError(f"{run.run.record_path!r}: cannot be read after the run has ended")
    return record


def metric_of(job: config.Config, record: RunRecord) -> float | None:
    """Returns `eval.metric` of the test split, or of eval without one."""
    metrics = record.metrics.get("test") or record.metrics.get("eval") or {}
    return metrics.get(job.eval.metric)


def _compute_band(job: config.Config, ended: Iterable[BaselineRun]) -> Band | None:
    return metric_band.compute_band(job.eval.metric, (one.value for one in ended))


def check_metric(
    job: config.Config, outcome: Outcome, ended: list[BaselineRun], *, train: Callable[[int], None]
) -> Band | None:
    """Adds to what is wrong if the metric is, and returns what is allowed.

    What the undisturbed runs of `ended` do not allow is compared with five: `train` adds one, and
    is told how many there will be. The number does not depend on whether the value fits meanwhile.
    """
    allowed = _compute_band(job, ended)
    if not outcome.examined:
        return allowed
    wrong = metric_band.check_metric(allowed, outcome.value)
    if wrong and outcome.value is not None and len(ended) < _DECIDING:
        print(f"{wrong[0]}: training undisturbed until {_DECIDING} such runs can be compared")
        while len(ended) < _DECIDING:
            train(_DECIDING)
        allowed = _compute_band(job, ended)
        wrong = metric_band.check_metric(allowed, outcome.value)
    outcome.wrong += wrong
    return allowed


def train_with_faults(
    experiment: ChaosExperiment,
    seed: int,
    settings: Sequence[str],
    *,
    faults: list[Fault],
    disk_size: int,
) -> Outcome:
    """Trains with faults, on a small disk of `disk_size` bytes if not 0; examines all of the end
    but the metric."""
    root = experiment.make_disturbed_storage(seed)
    moves = any(fault.kind == "clock" for fault in faults)
    clock = MovedClock(root / "clock") if moves else None
    environment = clock.environment if clock else None
    words = [*experiment.words, *_set(settings)]
    run = LaunchedRun(root, "disturbed", words, environment=environment)
    disk = SmallDisk(run.run.path, disk_size) if disk_size else None
    bound = disk is None and any(fault.kind == "slow_disk" for fault in faults)
    if bound:
        os.makedirs(run.run.path)
        isolation.bind(run.run.path)
    disturber = Disturber(faults)
    outcome = Outcome(disturber.faults, run.run.path, [])
    records = run_folder.records_folder(str(root), experiment.job.name)
    intact = run_folder.records_folder(str(experiment.undisturbed), experiment.job.name)
    disturber.scene = actions.Scene(
        run=run,
        job=experiment.job,
        records=builds.find_current(records),
        intact=builds.find_current(intact),
        disk=disk,
        clock=clock,
        rng=random.Random(f"chaos actions {seed}"),
        strike=disturber.strike,
        wrong=outcome.wrong.append,
    )
    began = time.monotonic()
    try:
        run.start()
        with progress.Progress("disturbed", experiment.job.train.steps, unit="steps") as shown:

            def act() -> None:
                disturber.act()
                shown.reach(run.top_step, f"{disturber.done} of {len(faults)} faults")

            lost = launched.follow(run, act, outcome.wrong.append, expected=disturber.expect_exit)
    finally:
        disturber.close()
        run.close()
        if disk is not None:
            disk.keep()
        if bound:
            isolation.unmount(run.run.path)
        if clock is not None:
            clock.close()
    outcome.seconds = time.monotonic() - began
    if not lost:
        _examine(experiment.job, run, disturber, outcome=outcome)
    return outcome


def _examine(
    job: config.Config,
    run: LaunchedRun,
    disturber: Disturber,
    *,
    outcome: Outcome,
) -> None:
    record = _read_record(run)
    rows = record.input or []
    disturber.account(rows)
    job = epochs.set_run_length(run.run.read_config(), run.run)
    outcome.step, outcome.wanted = record.final_step, job.train.max_steps or 0
    outcome.launches, outcome.restarts = record.launches, len(record.restarts)
    outcome.exports = promises.count_final_exports(run.run.path)
    outcome.value = metric_of(job, record)
    outcome.doubled = sum(row["more"] for row in rows)
    outcome.missed = sum(row["never"] for row in rows)
    # All launches but the first restore a checkpoint, and the final one counts as restored. A chief
    # whose servers were lost or not reached restores one, too, without being started again. What
    # was applied while it was saved is not known from outside: a batch of each process that trains.
    restored = sum(r.gang or r.role in (topology.CHIEF, topology.PS) for r in record.restarts)
    restored = max(record.launches + restored, run.sessions)
    windows = [promises.trainers(job)] * restored
    outcome.bound = promises.bound(job, run.workers_lost, windows)
    outcome.wrong += check_totals(job, outcome, rows, by_process=sum(record.readers.values()))
    if outcome.step is not None and not run_record.has_ended_for_good(record, run.run):
        outcome.wrong += promises.check_step(job, outcome.step)
    outcome.wrong += promises.check_exports(outcome.exports)
    outcome.wrong += check_ledger(job, outcome, rows)
    outcome.wrong += [
        f"process {pid} left: {about}"
        for pid, about in processes.find_survivors(run.run.path).items()
    ]


def check_totals(
    job: config.Config, outcome: Outcome, rows: Sequence[dict[str, int]], *, by_process: int
) -> list[str]:
    """Returns what is wrong with the sums of the ledger, and sets how many records it lacks: by
    block (`rows`) and by process it has what the steps of the same checkpoint have applied."""
    if outcome.step is None:
        return []
    by_block = sum(row["once"] + 2 * row["more"] for row in rows)
    outcome.uncounted = max(0, promises.count_uncounted(job, outcome.step, by_block))
    wrong = [
        promises.check_total(job, outcome.step, applied, most=outcome.bound)
        for applied in dict.fromkeys((by_block, by_process))
    ]
    return [line for lines in wrong for line in lines]


def check_ledger(job: config.Config, outcome: Outcome, rows: Sequence[dict[str, int]]) -> list[str]:
    """Returns what the ledger shows beyond the bound; `rows` are its epochs."""
    wrong = []
    doubled = outcome.doubled + outcome.uncounted
    if doubled > outcome.bound:
        wrong.append(f"{doubled:,} records applied more than once, {outcome.bound:,} allowed")
    if outcome.missed:
        wrong.append(f"{outcome.missed:,} records never applied, 0 allowed")
    whole = int(job.train.epochs or 0)
    unread = sum(row["left"] for row in rows if row["epoch"] < whole)
    if unread > outcome.bound:
        wrong.append(f"{unread:,} records of the last epoch left, {outcome.bound:,} allowed")
    return wrong


def cut_to(job: config.Config, first: BaselineRun) -> list[str]:
    """Returns the settings that cut training to the steps of `first`, which ended by its seconds.
    Checkpoints are as many as the whole job would have."""
    saves = job.train.save_steps
    whole = epochs.set_run_length(job, RunFolder(first.path)).train.max_steps or first.step
    saves = max(1, round(saves * first.step / max(whole, first.step)))
    return [f"train.steps={first.step}", "train.epochs=null", f"train.save_steps={saves}"]


def length_within(job: config.Config, seconds: int) -> str:
    """Returns the setting that ends training after so many seconds, unless it ends before."""
    given = job.train.max_seconds
    return f"train.max_seconds={seconds if given is None else min(seconds, given)}"
