"""Before a cluster starts: does every role see the same run folder, config and code?

Each role writes a random number into the run folder and waits until the chief has written it
back. So both have read what the other wrote: one folder, not two of the same name (traps A29).
With it the chief sends the hash of its config and its code version, which each role compares
with its own.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from pipeline import config, errors, storage, topology, versions
from pipeline.run_folder import RunFolder

_FOLDER = "preflight"
_POLL = 0.1  # seconds; looks at the folder are cheap while nothing else happens
_REMOTE_POLL = 5.0
_PATIENCE = 300.0  # seconds a role waits for the chief: hosts are started by hand, in any order


def identity(job: config.Config) -> dict[str, str]:
    """Returns what must be equal in all processes of a run."""
    return {"config": config.digest(job)[:12], "code": versions.code_version()}


class Answering:
    """The chief's side: answers every role, whenever it starts, for as long as the chief lives."""

    def __init__(self, run: RunFolder, job: config.Config) -> None:
        self._run = run
        self._identity = identity(job)
        self._answered: dict[str, Any] = {}

    def start(self) -> None:
        """Answers in the background; the thread dies with the process."""
        threading.Thread(target=self._answer_all, name="preflight", daemon=True).start()

    def _answer_all(self) -> None:
        while True:
            self.answer()
            time.sleep(_REMOTE_POLL if storage.is_remote(self._run.path) else _POLL)

    def answer(self) -> None:
        """Writes back what has been asked and not been answered yet."""
        for name in storage.listdir(storage.join(self._run.path, _FOLDER)):
            if not name.endswith(".ask.json"):
                continue
            asked = self._run.read(f"{_FOLDER}/{name}")
            if asked is not None and self._answered.get(name) != asked:
                self._answered[name] = asked
                answer = {**asked, **self._identity}
                self._run.write(f"{_FOLDER}/{name.replace('.ask.', '.answer.')}", answer)


def check(
    run: RunFolder,
    job: config.Config,
    task: topology.Task,
    *,
    patience: float = _PATIENCE,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """The other roles' side. Raises `UsageError` naming what differs from the chief, and
    `RetryableError` if the chief does not answer in `patience` seconds."""
    nonce = secrets.token_hex(8)
    run.write(f"{_FOLDER}/{task.name}.ask.json", {"nonce": nonce})
    deadline = clock() + patience
    while True:
        answer = run.read(f"{_FOLDER}/{task.name}.answer.json")
        if answer is not None and answer["nonce"] == nonce:
            break
        if clock() >= deadline:
            raise errors.RetryableError(
                f"{task.name}: the chief has not answered in {run.path!r} for {patience:g} s. "
                "Start it, or check that its host sees the same folder under that path"
            )
        sleep(_POLL)
    for what, own in identity(job).items():
        if answer[what] != own:
            raise errors.UsageError(
                f"{task.name}: its {what} is {own}, the chief's is {answer[what]}. Start "
                f"every role with the same {what}"
            )
