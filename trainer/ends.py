"""How training ends other than by its number of steps, and how every process finds that out.

The chief decides: a stop file (`make stop`, early stopping), a deadline, or a signal. It then
saves, and writes `TRAINING_DONE.json`, by which the others end: asynchronous workers at their
next step, processes that wait inside TensorFlow for a peer that has gone through `Watch`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pipeline import errors, run_folder, storage, task_log, topology
from pipeline.run_folder import RunFolder
from trainer import signals
from trainer.reporter import Reporter

_LOCAL_POLL = 0.5  # seconds between looks at the run folder
_REMOTE_POLL = 10.0
# How long a process may take to end by itself, in seconds: after a signal it may have to finish a
# long step; when training is over there is nothing left to wait for.
_GRACE_AFTER_SIGNAL = 20.0
_GRACE_AFTER_END = 3.0


def poll_interval(run: RunFolder) -> float:
    """Returns how often to look at the run folder, in seconds."""
    return _REMOTE_POLL if storage.is_remote(run.path) else _LOCAL_POLL


class StopHook(tf.compat.v1.train.SessionRunHook):
    """Ends training after the step under way when there is a reason to; `reason` says which.

    The chief's `CheckpointSaverHook` then saves as at any end, so no step is lost.
    """

    def __init__(
        self,
        run: RunFolder,
        *,
        is_chief: bool,
        max_seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._marker = run_folder.STOP if is_chief else run_folder.TRAINING_DONE
        self._interval = poll_interval(run)
        self._clock = clock
        self._looked = clock()
        self._deadline = clock() + max_seconds if max_seconds and is_chief else None
        self._max_seconds = max_seconds
        self.reason: str | None = None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Looks at the signals after each step, at the run folder now and then."""
        self.reason = self.reason or self._find_reason()
        if self.reason is not None:
            run_context.request_stop()

    def _find_reason(self) -> str | None:
        if signals.stop_requested.is_set():
            return "signal"
        now = self._clock()
        if self._deadline is not None and now >= self._deadline:
            return f"deadline: train.max_seconds={self._max_seconds:g}"
        if now - self._looked < self._interval:
            return None
        self._looked = now
        marker = self._run.read(self._marker)
        return None if marker is None else str(marker["reason"])


class Watch:
    """Ends a process that waits in TensorFlow for a peer that will not come any more.

    A thread, because a session that waits for a peer does not return to Python: a worker of an
    all-reduce whose chief has stopped, a parameter server. It looks for `TRAINING_DONE.json` (of
    this start of the run: the chief removes older ones first) and for a signal, gives the process
    some time to end by itself, and then ends it with the exit code that is due.
    """

    def __init__(self, run: RunFolder, task: topology.Task, reporter: Reporter) -> None:
        self._run, self._task, self._reporter = run, task, reporter

    def start(self) -> None:
        """Begins to look; the thread dies with the process."""
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    def _look(self) -> None:
        interval = poll_interval(self._run)
        while True:
            time.sleep(interval)
            if signals.stop_requested.is_set():
                self._leave(_GRACE_AFTER_SIGNAL, errors.RetryableError.exit_code, "stopped")
            if self._run.read(run_folder.TRAINING_DONE) is not None:
                if self._task.job_name == topology.PS:
                    self._await_workers(interval)
                self._leave(_GRACE_AFTER_END, 0, "done")

    def _await_workers(self, interval: float) -> None:
        """Serves on until no training process says that it still needs this one."""
        deadline = time.monotonic() + _GRACE_AFTER_SIGNAL
        while time.monotonic() < deadline:
            statuses = run_folder.read_statuses(self._run)
            busy = [
                status
                for name, status in statuses.items()
                if name.rpartition("-")[0] in topology.TRAINING_ROLES
                and status.state not in run_folder.ENDED
            ]
            if not busy:
                return
            time.sleep(interval)

    def _leave(self, after: float, code: int, state: str) -> None:
        time.sleep(after)
        stopped = "stopped while waiting for another process"
        self._reporter.say(
            state, **({"error": stopped, "exit_code": code} if code else {"exit_code": 0})
        )
        task_log.copy_now()
        os._exit(code)
