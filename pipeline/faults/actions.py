"""What each kind of fault does to a run.

An action is a generator: it yields where it waits, and is continued at the next look. It strikes
once what it hits is there, and has undone what lasts when it ends, however it ends.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline import config, errors
from pipeline.faults import processes, slow_disk
from pipeline.faults.clock import MovedClock
from pipeline.faults.draw import Fault
from pipeline.faults.launched import LaunchedRun
from pipeline.faults.small_disk import SmallDisk
from pipeline.processes import isolation
from pipeline.records import manifest
from pipeline.runs import run_folder

_FURTHEST = 7200.0  # seconds that a clock jumps at most
_SLOW = 0.5  # seconds that a slow disk takes to open a file, or to read of it


@dataclasses.dataclass(frozen=True)
class Scene:
    """What actions work on: the run, and files of its own.

    `records` is the private copy of the build that it trains on, `intact` one that is never
    touched. `strike` notes the moment of a fault, `wrong` what should not have happened.
    """

    run: LaunchedRun
    job: config.Config
    records: str
    intact: str
    disk: SmallDisk | None
    clock: MovedClock | None
    rng: random.Random
    strike: Callable[[Fault], None]
    wrong: Callable[[str], None]


def _kill(scene: Scene, fault: Fault) -> Iterator[None]:
    while not scene.run.kill(fault.target):
        yield
    scene.strike(fault)


def _stop(scene: Scene, fault: Fault) -> Iterator[None]:
    while not (pids := processes.pids_of(fault.target, scene.run.run)):
        yield
    scene.strike(fault)
    processes.send(pids, signal.SIGSTOP)
    try:
        yield from _wait(fault.seconds)
    finally:
        processes.send(pids, signal.SIGCONT)


def _checkpoint(scene: Scene, fault: Fault) -> Iterator[None]:
    run = scene.run.run
    # One to fall back to must have been saved before.
    while len(list(pathlib.Path(run.path).glob("model.ckpt-*.index"))) < 2 or not (
        pids := processes.pids_of(fault.target, run)
    ):
        yield
    processes.send(pids, signal.SIGSTOP)  # so that it saves no newer one
    step = run_folder.find_saved_step(run)
    files = sorted(pathlib.Path(run.path).glob(f"model.ckpt-{step}.data-*"))
    for file in files[:1]:
        alter(file, scene.rng)
    fault.note = f"of step {step:,}" if step is not None else ""
    scene.strike(fault)
    processes.send(pids, signal.SIGKILL)


def _shard(scene: Scene, fault: Fault) -> Iterator[None]:
    run = scene.run
    shard = scene.rng.choice(manifest.read(scene.records).split("train").shards).path
    while not (chiefs := processes.pids_of("chief-0", run.run)):
        yield
    alter(pathlib.Path(scene.records, shard), scene.rng)
    before = len(run.codes)
    run.kill("launcher")
    scene.strike(fault)
    while errors.DataError.exit_code not in run.codes[before:]:
        if has_stepped_after(run, chiefs):
            if scene.job.data.on_corrupt == "fail":
                scene.wrong(f"the altered shard {shard} was not found")
                restore(scene, shard)
            fault.note = f"{os.path.basename(shard)} left out"
            return
        yield
    fault.note = f"{os.path.basename(shard)} found (exit code 65), and restored"
    restore(scene, shard)


def _disk(scene: Scene, fault: Fault) -> Iterator[None]:
    assert scene.disk is not None
    while not processes.pids_of("chief-0", scene.run.run):
        yield
    before = len(scene.run.codes)
    scene.disk.fill()
    scene.strike(fault)
    try:
        for _ in _wait(fault.seconds):
            if scene.run.codes[before:]:
                break
            yield
    finally:
        scene.disk.free()


def _slow_disk(scene: Scene, fault: Fault) -> Iterator[None]:
    while not processes.pids_of("chief-0", scene.run.run):
        yield
    try:
        with slow_disk.slow_down(scene.run.run.path, _SLOW):
            scene.strike(fault)
            yield from _wait(fault.seconds)
    except OSError as error:
        fault.note = f"not done: {error}"


def _network(scene: Scene, fault: Fault) -> Iterator[None]:
    while not (pids := processes.pids_of("chief-0", scene.run.run)):
        yield
    pid = pids[0]
    try:
        isolation.set_loopback_of(pid, up=False)
    except OSError as error:
        fault.note = f"not done: {error}"
        return
    scene.strike(fault)
    try:
        yield from _wait(fault.seconds)
    finally:
        _restore_loopback(scene, pid)


def _clock(scene: Scene, fault: Fault) -> Iterator[None]:
    assert scene.clock is not None
    while not processes.pids_of("chief-0", scene.run.run):
        yield
    # Back to where it was, or away from there.
    jump = -scene.clock.moved or scene.rng.choice((-1, 1)) * scene.rng.uniform(60, _FURTHEST)
    scene.clock.jump(jump)
    fault.note = f"by {jump:+,.0f} s"
    scene.strike(fault)


def _restore_loopback(scene: Scene, pid: int) -> None:
    """Through any process of the network that is left."""
    for one in [pid, *processes.processes_of(scene.run.run.path)]:
        try:
            isolation.set_loopback_of(one, up=True)
            return
        except OSError:
            continue


ACTIONS: Mapping[str, Callable[[Scene, Fault], Iterator[None]]] = {
    "kill": _kill,
    "stop": _stop,
    "checkpoint": _checkpoint,
    "shard": _shard,
    "disk": _disk,
    "slow_disk": _slow_disk,
    "network": _network,
    "clock": _clock,
}
# The exit codes with which the launcher may end by itself after a fault of a kind.
EXPECTED: Mapping[str, tuple[int, ...]] = {
    "shard": (errors.DataError.exit_code,),
    "disk": (errors.RetryableError.exit_code,),
    "network": (errors.RetryableError.exit_code,),
}


def _wait(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield


def has_stepped_after(run: LaunchedRun, former: Sequence[int]) -> bool:
    """True once a chief has made a step whose process id is not among `former`. The former one may
    report a step after its launcher was killed and before it ends itself."""
    chief = run.statuses.get("chief-0")
    return chief is not None and chief.pid not in former and chief.has_stepped


def alter(path: pathlib.Path, rng: random.Random) -> None:
    """Changes a byte in the middle of a file, in a new file in its place: others that are linked to
    it stay as they are."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 4 + rng.randrange(max(1, len(content) // 2))
    content[min(middle, len(content) - 1)] ^= 0xFF
    altered = path.with_name(f".{path.name}.altered")
    altered.write_bytes(content)
    os.replace(altered, path)


def restore(scene: Scene, shard: str) -> None:
    """Puts a shard back as it was."""
    link(os.path.join(scene.intact, shard), os.path.join(scene.records, shard))


def link(source: str, target: str) -> None:
    """Makes `target` the same file as `source`, or a copy where that cannot be."""
    if os.path.exists(target) and os.path.samefile(source, target):
        return  # to rename one link of a file to another does nothing: the first would stay
    fresh = f"{target}.fresh"
    try:
        os.link(source, fresh)
    except OSError:
        shutil.copyfile(source, fresh)
    os.replace(fresh, target)
