"""One request to train: the config, the run it belongs to, and where that lies."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline import (
    compatibility,
    config,
    config_file,
    epochs,
    errors,
    isolation,
    manifest,
    run_folder,
    storage,
    topology,
)
from pipeline.run_folder import RunFolder

# A launcher that was killed leaves processes that die within moments and hold the lock till then.
_LOCK_PATIENCE = 10.0  # seconds


@dataclasses.dataclass(frozen=True)
class Job:
    """A validated request. Nothing has been written for it yet."""

    config: config.Config
    name: str
    storage_root: str
    run: RunFolder
    records: str
    isolate: isolation.Isolate = isolation.Isolate.AUTO

    @property
    def counts(self) -> dict[str, int]:
        """Number of processes of each role."""
        return topology.role_counts(self.config.cluster)


def cluster_overrides(strategy: str | None, workers: int | None, ps: int | None) -> list[str]:
    """Returns the `--set` overrides that the short flags stand for."""
    given = {"strategy": strategy, "workers": workers, "ps": ps}
    return [f"cluster.{key}={value}" for key, value in given.items() if value not in (None, "")]


def plan(
    config_name: str,
    overrides: Sequence[str],
    *,
    run: str | None,
    storage_root: str,
    look: bool = True,
) -> Job:
    """Reads and checks everything that can be checked before anything is written or started; what
    an earlier start left there is looked at too, unless told not to `look`.

    Without a name the run is called after its config, so the same command finds it again. Raises
    `UsageError` for a bad config, a topology that cannot work, or a `run` that was trained on
    other data or another model.
    """
    wanted = config_file.load(config_name, list(overrides))
    name = run or run_folder.run_name(wanted)
    root = storage.absolute(storage_root)
    job = Job(
        config=wanted,
        name=name,
        storage_root=root,
        run=RunFolder(run_folder.run_folder(root, name)),
        records=run_folder.records_folder(root, wanted.name),
    )
    compatibility.check(wanted)
    if look:
        _refuse_other_job(job)
    return job


def counted(job: Job) -> config.Config:
    """Returns the config with its epochs turned into steps, if there are records to count."""
    try:
        return epochs.resolve(job.config, manifest.read(job.records))
    except errors.DataError:
        return job.config


def changes(job: Job) -> list[str]:
    """Returns what differs from the config the run was last started with, a line each."""
    if not storage.exists(job.run.config_path):
        return []
    old = _flat(job.run.read_config().model_dump(mode="json"))
    new = _flat(job.config.model_dump(mode="json"))
    absent = object()
    # What was stored of epochs is steps; they are compared when the new ones are known.
    unknown = () if job.config.train.steps is not None else ("train.steps", "train.epochs")
    return [
        f"{key}: {_shown(old.get(key, absent), absent)} -> {_shown(new.get(key, absent), absent)}"
        for key in [*old, *(key for key in new if key not in old)]
        if old.get(key, absent) != new.get(key, absent) and key not in unknown
    ]


def _refuse_other_job(job: Job) -> None:
    may_change = tuple(f"data.{key}:" for key in config.Data.OF_READING)
    differing = [
        line
        for line in changes(job)
        if line.startswith(("data.", "model.")) and not line.startswith(may_change)
    ]
    if differing:
        raise errors.UsageError(
            f"run {job.name!r} was trained with another config ({'; '.join(differing)}): "
            "use another RUN= for this one"
        )


def _shown(value: Any, absent: object) -> str:
    return "nothing" if value is absent else repr(value)


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict) or not tree:
        return {prefix: tree}
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


@contextlib.contextmanager
def lock(
    job: Job,
    *,
    sleep: Callable[[float], None] = time.sleep,
    patience: float = _LOCK_PATIENCE,
) -> Iterator[int]:
    """Holds the run for one launcher; yields the descriptor, which processes of the run keep.

    It is free again once the launcher and all of them are gone. Raises `UsageError` with the
    process id if another launcher works on the run. Runs on gs:// are locked on this host only.
    """
    remote = storage.is_remote(job.run.path)
    path = _host_lock(job) if remote else storage.join(job.run.path, "launcher.lock")
    storage.makedirs(storage.parent(path))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise errors.from_os_error(error, f"cannot write {path!r}") from None
    try:
        waited = 0.0
        while not _try_lock(descriptor):
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            if _is_alive(holder) or waited >= patience:
                raise errors.UsageError(
                    f"run {job.name!r}: another launcher (pid {holder or 'unknown'}) is working "
                    "on it. Wait for it, stop it with Ctrl-C, or use another RUN="
                )
            sleep(0.1)
            waited += 0.1
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _host_lock(job: Job) -> str:
    name = config.digest({"path": job.run.path})[:16]
    return os.path.join(tempfile.gettempdir(), f"estimator-pipeline-{os.getuid()}", f"{name}.lock")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
