"""A lock that hosts share: an object on gs:// which its holder rewrites now and then.

It is made, rewritten and taken over on the condition that it has not changed since. A process
that finds it there watches it for a while; a holder that does not rewrite it meanwhile is gone. No
clock of any host matters.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import errors
from pipeline.storage import gcs

# Seconds between two signs of life, and how long to watch for one.
_BEAT, _PATIENCE = 15.0, 60.0
_POLL = 5.0


@contextlib.contextmanager
def hold(
    path: str,
    *,
    what: str,
    lost: Callable[[], None],
    is_alive: Callable[[int], bool],
    refusal: type[errors.PipelineError] = errors.UsageError,
    sleep: Callable[[float], None] = time.sleep,
    patience: float = _PATIENCE,
    beat: float = _BEAT,
) -> Iterator[None]:
    """Holds the lock at `path` while the body runs.

    Raises `refusal` naming `what` and the other holder if there is one. `lost` is called from
    another thread if another process has taken it over because this one was suspended too long.
    `is_alive` tells if there is a process on this machine: one that is gone is not waited for.
    """
    holder = _Holder(path, is_alive, refusal)
    holder.take(what, sleep, patience)
    ended = threading.Event()
    thread = threading.Thread(target=holder.keep, args=(ended, beat, lost), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        holder.give_back()


class _Holder:
    """This process, as one that holds a lock or wants to."""

    def __init__(
        self, path: str, is_alive: Callable[[int], bool], refusal: type[errors.PipelineError]
    ) -> None:
        self._path, self._generation, self._beats = path, 0, 0
        self._is_alive, self._refused = is_alive, refusal
        self._identity = {
            "host": socket.gethostname(),
            "machine": _identify_machine(),
            "pid": os.getpid(),
            "key": secrets.token_hex(8),
        }

    def take(self, what: str, sleep: Callable[[float], None], patience: float) -> None:
        """Takes the lock if it is free, or its holder is gone. Raises the refusal."""
        seen, watched = gcs.generation(self._path), 0.0
        other = self._read_other() if seen else {}
        if seen and self._is_gone(other):
            patience = 0.0
        elif seen:
            print(
                f"{what}: {_describe(other)} had it last; watching for {patience:g} s", flush=True
            )
        while seen and watched < patience:
            sleep(_POLL)
            watched += _POLL
            now = gcs.generation(self._path)
            if now not in (0, seen):
                raise self._build_refusal(what)
            seen = now
        if not self._write(seen):
            raise self._build_refusal(what)

    def keep(self, ended: threading.Event, beat: float, lost: Callable[[], None]) -> None:
        """Gives signs of life until the lock has `ended`, or is another's."""
        while not ended.wait(beat):
            try:
                if not self._write(self._generation):
                    lost()
                    return
            except errors.PipelineError:
                continue  # the next one may come through

    def give_back(self) -> None:
        """Removes the lock, unless it is another's."""
        with contextlib.suppress(errors.PipelineError, FileNotFoundError):
            gcs.remove_generation(self._path, self._generation)

    def _write(self, generation: int) -> bool:
        self._beats += 1
        content = json.dumps({**self._identity, "beats": self._beats}).encode()
        try:
            self._generation = gcs.replace(self._path, content, generation)
        except FileExistsError:
            return False
        return True

    def _build_refusal(self, what: str) -> errors.PipelineError:
        return self._refused(
            f"{what}: {_describe(self._read_other())} is working on it. Wait for it, or stop it"
        )

    def _read_other(self) -> dict[str, Any]:
        try:
            return dict(json.loads(gcs.read_bytes(self._path)))
        except (FileNotFoundError, ValueError):
            return {}

    def _is_gone(self, other: dict[str, Any]) -> bool:
        """True if the other was a process of this machine that is no more."""
        here = other.get("machine") == self._identity["machine"] != ""
        return here and not self._is_alive(int(other["pid"]))


def _describe(other: dict[str, Any]) -> str:
    return f"process {other.get('pid', 'unknown')} on {other.get('host', 'an unknown host')}"


def _identify_machine() -> str:
    """Returns what tells apart machines, and containers, in which process ids mean the same."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
