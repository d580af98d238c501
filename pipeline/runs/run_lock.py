"""The lock that keeps two launchers from working on one run, and tells whether one does.

It is free again once the launcher and all its processes are gone, however they ended. Of a run on
gs:// it is a file of this machine, and an object there, which other hosts see.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator

from pipeline import errors, storage
from pipeline.processes import exits
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import gcs_lock

# A launcher that was killed leaves processes that die within moments and hold the lock till then.
_PATIENCE = 10.0  # seconds
_NAME = "launcher.lock"
# Errors of file systems without locks: on these nothing prevents a second start.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


@contextlib.contextmanager
def hold(
    run: RunFolder,
    *,
    sleep: Callable[[float], None] = time.sleep,
    patience: float = _PATIENCE,
) -> Iterator[int]:
    """Holds the run for one launcher, or a chief that was started by hand; yields the descriptor,
    which processes of the run keep.

    Raises `UsageError` with the process id if another works on the run.
    """
    path = _get_path(run)
    storage.makedirs(storage.parent(path))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot write {path!r}") from None
    try:
        waited = 0.0
        while not try_lock(descriptor, fcntl.LOCK_EX):
            holder = _find_holder(descriptor)
            if is_alive(holder) or waited >= patience:
                raise errors.UsageError(
                    f"run {run.name!r}: another process (pid {holder or 'unknown'}) is working "
                    "on it. Wait for it, stop it with Ctrl-C, or use another RUN="
                )
            sleep(0.1)
            waited += 0.1
        try:
            # Over what was there, which even a full disk has room for.
            os.ftruncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
        except OSError as error:
            raise errors.translate_os_error(error, f"cannot write {path!r}") from None
        with _hold(storage.join(run.path, _NAME), f"run {run.name!r}", lost=_leave):
            yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_role(run: RunFolder, role: str, *, is_launcher: bool = False) -> Iterator[None]:
    """Holds the one place of `role` in a run on gs://, against other hosts; elsewhere does nothing.

    A process that stood still until another host took its place ends at once with exit code 75,
    without a save. Raises `UsageError` for a launcher, and for a process `RetryableError`, if
    another host has it: a platform that has moved the process may have left the old one alive.
    """
    path = storage.join(run.path, f"{role}.lock")
    what = f"run {run.name!r}: {role}"
    refusal = errors.UsageError if is_launcher else errors.RetryableError
    with _hold(path, what, lost=_leave, refusal=refusal):
        yield


@contextlib.contextmanager
def hold_shared(path: str, what: str) -> Iterator[None]:
    """Holds a lock at `path` that hosts share, if that is on gs://. SIGTERM tells this process when
    another has taken it over.

    Raises `UsageError` naming `what` and the process that holds it.
    """
    with _hold(path, what, lost=lambda: os.kill(os.getpid(), signal.SIGTERM)):
        yield


@contextlib.contextmanager
def _hold(
    path: str,
    what: str,
    *,
    lost: Callable[[], None],
    refusal: type[errors.PipelineError] = errors.UsageError,
) -> Iterator[None]:
    if not storage.is_remote(path):
        yield
        return

    def step_back() -> None:
        print(
            f"{what}: another process took it over, because this process was suspended", flush=True
        )
        lost()

    with gcs_lock.hold(path, what=what, lost=step_back, is_alive=is_alive, refusal=refusal):
        yield


def _leave() -> None:
    """Ends this process, and with a launcher the processes it started: what they would save on the
    way out could replace what the run has become without them."""
    exits.exit_at_once(errors.RetryableError.exit_code)


def has_launcher(run: RunFolder) -> bool:
    """True if a launcher of this machine is running the run. Raises `OSError` if the lock
    cannot be looked at."""
    try:
        descriptor = os.open(_get_path(run), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH) and is_alive(_find_holder(descriptor))
    finally:
        os.close(descriptor)


def is_alive(pid: int | None) -> bool:
    """Tells whether there is a process of that number on this machine that has not ended."""
    if not pid:
        return False
    try:
        os.kill(pid, 0)
        # A zombie can still be sent signals.
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _get_path(run: RunFolder) -> str:
    if not storage.is_remote(run.path):
        return storage.join(run.path, _NAME)
    from pipeline import config  # commands that only look at a disk start without it

    name = f"{config.digest({'path': run.path})[:16]}.lock"
    return os.path.join(tempfile.gettempdir(), f"estimator-pipeline-{os.getuid()}", name)


def try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Takes a lock of a `kind` if it is free, and tells whether it was. Where the file system has
    no locks it always is."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _find_holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
    return int(text) if text.isdigit() else None
