"""Trains a job for some seconds in runs of its own, and measures what a step takes of what."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.console import progress
from pipeline.faults.experiment import share_records
from pipeline.faults.launched import LaunchedRun
from pipeline.planning import observing
from pipeline.planning.demands import Calibration, Machines, Measured
from pipeline.planning.further_server import FurtherServer
from pipeline.planning.observing import Snapshot
from pipeline.processes import environment
from pipeline.records import builds, manifest
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_record import RunRecord

_PARTS, _POLL = 4, 0.1
# Seconds that a start and an end may take.
_START, _END = 600.0, 120.0
_SAVES = 2  # of a run: the first and the last
_FOREVER = 10**9  # steps
_LEAST_LOOKS = 10  # updates that tell the mean staleness


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where calibration runs are: the job with the `words` of its command, a folder of their own,
    and the seconds that each is measured for. `started` is called with a run that has begun to
    train, before it is measured; unless it `ends` as others do, it is killed afterwards."""

    job: config.Config
    words: Sequence[str]
    folder: pathlib.Path
    storage_root: str
    seconds: float
    started: Callable[[LaunchedRun], None] = lambda run: None
    ends: bool = True


def measure(bench: Bench, strategy: str, workers: int, *, servers: int) -> Measured:
    """Trains with so many processes, measures, and ends the run. Raises what it fails with."""
    bench.folder.mkdir(parents=True, exist_ok=True)
    share_records(bench.storage_root, str(bench.folder), bench.job.name)
    name = f"{strategy}-{workers}-{servers}"
    storage.remove(run_folder.run_folder(str(bench.folder), name))
    words = [f"--set={one}" for one in override_run(strategy, workers, servers)]
    run = LaunchedRun(bench.folder, name, [*bench.words, *words])
    label = f"{strategy} {workers} + {servers}" if servers else f"{strategy} {workers}"
    began = time.time()
    run.start()
    try:
        with progress.Progress(label, None, unit="steps") as shown:
            _start(run, shown, workers)
            start = time.time() - began
            bench.started(run)
            snapshots = list(_observe(run, bench.seconds, shown))
        record = _end(run) if bench.ends else None
    finally:
        run.close()
    job = with_processes(bench.job, strategy, workers, servers=servers)
    measured = _measure(job, snapshots, workers=workers, servers=servers)
    update = {"start_seconds": start, **_measure_whole(run, record, snapshots[-1])}
    return measured.model_copy(update=update)


def with_processes(
    job: config.Config, strategy: str, workers: int, *, servers: int
) -> config.Config:
    """Returns the job with another strategy and numbers of processes."""
    ps = servers if strategy_table.STRATEGIES[strategy].servers else None
    update = {"strategy": strategy, "workers": workers, "ps": ps}
    return job.model_copy(update={"cluster": job.cluster.model_copy(update=update)})


def calibrate(
    bench: Bench,
    strategy: str,
    sizes: Sequence[tuple[int, int]],
    *,
    server_cores: int | None,
    further_server: FurtherServer | None = None,
) -> Calibration:
    """Measures a strategy with each of some numbers of workers and servers, on this machine.

    With `server_cores` the servers have so many cores for themselves. Threads that update
    parameters side by side wait for the same memory, and take more processor seconds than one
    after another: servers of one core are to be measured on one. `further_server` is needed to plan
    for other numbers of servers.
    """
    cores, has_servers = environment.processors(), strategy_table.STRATEGIES[strategy].servers
    machines = Machines(shared=float(cores))
    can_keep = has_servers and hasattr(os, "sched_setaffinity")
    if can_keep and server_cores is not None and server_cores < cores:
        others = float(cores - server_cores)
        machines = Machines(shared=others, server=server_cores / max(ps for _, ps in sizes))
        bench = dataclasses.replace(bench, started=_keep_apart(bench.started, server_cores))
    runs = [measure(bench, strategy, workers, servers=ps) for workers, ps in sizes]
    job = with_processes(bench.job, strategy, sizes[0][0], servers=sizes[0][1])
    return Calibration(
        config=bench.job.name,
        strategy=strategy,
        machines=machines,
        examples_per_process=topology.examples_per_process(job),
        record_bytes=train_records(bench.job, str(bench.folder))[1],
        further_server=further_server if has_servers else None,
        runs=runs,
    )


def _keep_apart(
    started: Callable[[LaunchedRun], None], cores: int
) -> Callable[[LaunchedRun], None]:
    def prepare(run: LaunchedRun) -> None:
        keep_servers_apart(run, cores)
        started(run)

    return prepare


def keep_servers_apart(run: LaunchedRun, cores: int) -> None:
    """Leaves the servers of a run some cores of this machine, and all others the rest."""
    every = sorted(os.sched_getaffinity(0))
    for task, status in run.statuses.items():
        _keep(status.pid, every[:cores] if task.startswith(topology.PS) else every[cores:])


def _keep(pid: int, cores: Sequence[int]) -> None:
    """Keeps a process on some cores, with the threads that those not yet kept start meanwhile."""
    kept: set[int] = set()
    while new := {int(each) for each in os.listdir(f"/proc/{pid}/task")} - kept:
        for thread in new:
            with contextlib.suppress(ProcessLookupError):  # It has ended.
                os.sched_setaffinity(thread, cores)
        kept |= new


def override_cluster(strategy: str, workers: int, servers: int) -> list[str]:
    """Returns the settings that give a job another strategy and numbers of processes."""
    ps = servers if strategy_table.STRATEGIES[strategy].servers else "null"
    return [f"cluster.strategy={strategy}", f"cluster.workers={workers}", f"cluster.ps={ps}"]


def override_run(strategy: str, workers: int, servers: int) -> list[str]:
    """Returns the settings that make a job such a run, which trains on until it is ended."""
    length = {
        "train.epochs": "null",
        "train.steps": _FOREVER,
        "train.save_steps": _FOREVER,
        "train.max_seconds": "null",
        "train.pause_step": "null",
        "eval.throttle_seconds": 100_000,
    }
    cluster = override_cluster(strategy, workers, servers)
    return [*(f"{key}={value}" for key, value in length.items()), *cluster]


def _start(run: LaunchedRun, shown: progress.Progress, workers: int) -> None:
    """Waits until all that train are past their first steps, which start things up."""
    tasks = ["chief-0", *(f"worker-{n}" for n in range(workers))]
    deadline = time.monotonic() + _START
    while not all(_is_warm(observing.look(run.run), task) for task in tasks):
        follow(run, shown)
        if time.monotonic() > deadline:
            raise errors.RetryableError(
                f"calibration: not all processes of {run.run.path!r} have trained within "
                f"{_START:g} s. See {str(run.log)!r}"
            )
        time.sleep(_POLL)


def _end(run: LaunchedRun) -> RunRecord | None:
    """Asks a run to save, evaluate and end, as `make stop` does. Returns its record."""
    run.run.write(run_folder.STOP, {"reason": "calibrated"})
    deadline = time.monotonic() + _END
    while run.look() and time.monotonic() < deadline:
        time.sleep(_POLL)
    return run_record.read(run.run)


def _is_warm(snapshot: Snapshot, task: str) -> bool:
    account = snapshot.accounts.get(task)
    return account is not None and len(account.periods) > 0 and account.timed > 0


def follow(run: LaunchedRun, shown: progress.Progress) -> None:
    """Shows how far a run is since its first steps. Raises what it failed with if it has ended."""
    if run.look():
        if not shown.done:
            shown.begin_at(run.top_step)  # without the start-up
        elif run.top_step > shown.done:
            shown.reach(run.top_step)
        return
    code = run.wait()
    line = run.read_last_line().removeprefix("error: ")
    if code > 0:
        raise errors.build_from_exit_code(code, f"the job cannot be calibrated: {line}")
    raise errors.DataError(
        f"the job cannot be calibrated: it ended by itself after {run.top_step:,} steps. See "
        f"{str(run.log)!r}"
    )


def _observe(run: LaunchedRun, seconds: float, shown: progress.Progress) -> Iterator[Snapshot]:
    """Yields snapshots at equal distances. Restarts would be measured as slow steps."""
    yield observing.look(run.run)
    for _ in range(_PARTS):
        until = time.monotonic() + seconds / _PARTS
        while time.monotonic() < until:
            follow(run, shown)
            time.sleep(_POLL)
        yield observing.look(run.run)
    if run.restarts:
        raise errors.RetryableError(
            f"calibration: {run.restarts[0].role}-{run.restarts[0].index} was restarted "
            f"({run.restarts[0].cause}). Run the same command again."
        )


def _measure(
    job: config.Config, snapshots: Sequence[Snapshot], *, workers: int, servers: int
) -> Measured:
    first, last = snapshots[0], snapshots[-1]
    tasks = [task for task in last.accounts if task in first.accounts]
    batch = topology.examples_per_process(job)
    rates = [
        sum(_compute_rate(a, b, task) for task in tasks) / len(tasks) / batch
        for a, b in itertools.pairwise(snapshots)
    ]
    rate = sum(_compute_rate(first, last, task) for task in tasks) / len(tasks) / batch
    if not rate:
        raise errors.RetryableError(
            "calibration: no step was made while it was measured. Give more SECONDS="
        )
    elapsed, steps = last.time - first.time, rate * len(tasks)
    loads = [status.servers for status in last.statuses.values() if status.servers]
    counted = _count_network_bytes(first, last, steps=steps * elapsed)
    pulled, pushed = traffic(loads, counted)
    if strategy_table.STRATEGIES[job.cluster.strategy].reduces_between_processes:
        pushed = counted or 0.0
    return Measured(
        workers=workers,
        servers=servers,
        rate=rate,
        rates=[one for one in rates if one] or [rate],
        worker_cpu=_compute_cpu(first, last, topology.TRAINING_ROLES) / elapsed / steps,
        server_cpu=_compute_cpu(first, last, (topology.PS,)) / elapsed / steps,
        pulled=pulled,
        pushed=pushed,
        counted_bytes=last.network is not None,
        rows=sum(server["rows"] for load in loads for server in load) / max(1, len(loads)),
        seconds={state: share / rate for state, share in _shares(first, last, tasks).items()},
        longest_input=max(_shares(first, last, [task]).get("input", 0.0) for task in tasks) / rate,
        periods=sorted(p for task in tasks for p in last.accounts[task].periods),
        staleness=count_staleness(first, last),
        start_seconds=0.0,
        save_seconds=0.0,
    )


def _compute_rate(first: Snapshot, last: Snapshot, task: str) -> float:
    """Returns the examples a second of a process between two of its accounts."""
    a, b = first.accounts[task], last.accounts[task]
    return (b.examples - a.examples) / (b.until - a.until) if b.until > a.until else 0.0


def _compute_cpu(first: Snapshot, last: Snapshot, roles: Sequence[str]) -> float:
    return sum(
        seconds - first.cpu[task]
        for task, seconds in last.cpu.items()
        if task.rpartition("-")[0] in roles and task in first.cpu
    )


def _shares(first: Snapshot, last: Snapshot, tasks: Sequence[str]) -> dict[str, float]:
    """Returns the share of the time that processes have spent in each state."""
    spent: dict[str, float] = {}
    for task in tasks:
        a, b = first.accounts[task], last.accounts[task]
        for state, seconds in b.seconds.items():
            spent[state] = spent.get(state, 0.0) + seconds - a.seconds.get(state, 0.0)
    whole = sum(last.accounts[task].until - first.accounts[task].until for task in tasks)
    return {state: seconds / whole for state, seconds in spent.items()} if whole else {}


def traffic(
    loads: Sequence[Sequence[Mapping[str, float]]], counted: float | None
) -> tuple[float, float]:
    """Returns the bytes of a step from and to all servers, by the `loads` of each server in traces
    of each process. A network of the run's own has `counted` all bytes, with those of the protocol.

    A trace may lack transfers in one direction, as each process turns on its log of them by itself
    (see `trainer.monitoring.server_load`), but has none that were not made: the most that any
    process has seen is right. What none has seen is of the direction with less, until both are
    equal: gradients are as large as the parameters they are of.
    """
    pulled, pushed = (
        sum(max(server) for server in itertools.zip_longest(*of_processes, fillvalue=0.0))
        for of_processes in (
            [[server["pulled"] for server in load] for load in loads],
            [[server["bytes"] - server["pulled"] for server in load] for load in loads],
        )
    )
    both = pulled + pushed
    if counted is None or not both:
        return pulled, pushed
    if counted < both:
        return pulled * counted / both, pushed * counted / both
    level = min(counted - both, abs(pulled - pushed))
    half = (counted - both - level) / 2
    return (
        pulled + half + level * (pulled < pushed),
        pushed + half + level * (pushed < pulled),
    )


def _count_network_bytes(first: Snapshot, last: Snapshot, *, steps: float) -> float | None:
    """Returns the bytes of a step that have gone over the run's own network, if it has one."""
    if first.network is None or last.network is None:
        return None
    return (last.network - first.network) / steps


def count_staleness(first: Snapshot, last: Snapshot) -> float | None:
    """Returns the mean staleness of the updates that were looked at between two snapshots; `None`
    if these are too few to say."""
    counts: collections.Counter[int] = collections.Counter()
    for snapshot, sign in ((first, -1), (last, 1)):
        for status in snapshot.statuses.values():
            for late, count in (status.staleness or {}).items():
                counts[int(late)] += sign * count
    if counts.total() < _LEAST_LOOKS:
        return None
    return sum(late * count for late, count in counts.items()) / counts.total()


def _measure_whole(
    run: LaunchedRun, record: RunRecord | None, last: Snapshot
) -> Mapping[str, object]:
    """Returns what is known of the run as a whole: saves, the evaluation, memory."""
    sizes = [storage.size(path) for path in storage.glob(f"{run.run.path}/model.ckpt-*.data-*")]
    seconds = record.seconds if record is not None else {}
    servers = [size for task, size in last.memory.items() if task.startswith(topology.PS)]
    others = [size for task, size in last.memory.items() if not task.startswith(topology.PS)]
    return {
        "checkpoint_bytes": max(sizes, default=0),
        "save_seconds": seconds.get("checkpoints", 0.0) / _SAVES,
        "evaluation_seconds": seconds.get("evaluation"),
        "server_memory": max(servers, default=0),
        "worker_memory": max(others, default=0),
    }


def train_records(job: config.Config, root: str) -> tuple[int, float]:
    """Returns the number of train records and the mean bytes of one on storage; none of an input
    without records."""
    if not job.data.has_records:
        return 0, 0.0
    split = manifest.read(builds.find_current(run_folder.records_folder(root, job.name))).split(
        "train"
    )
    return split.records, sum(one.bytes for one in split.shards) / max(1, split.records)
