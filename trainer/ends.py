"""How training ends other than by its number of steps, and how every process finds that out.

The chief decides: a stop file (`make stop`, early stopping), a deadline, or a signal. It then
saves, and writes `TRAINING_DONE.json`, by which the others end: asynchronous workers at their
next step, processes that wait inside TensorFlow for a peer that has gone through `Watch`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pipeline import errors, redaction, restarts, run_folder, storage, task_log, topology
from pipeline.run_folder import RunFolder
from trainer import signals
from trainer.reporter import Reporter

_LOCAL_POLL = 0.5  # seconds between looks at the run folder
_REMOTE_POLL = 10.0
# How long a process may take to end by itself, in seconds: after a signal it may have to finish a
# long step; when training is over there is nothing left to wait for.
_GRACE_AFTER_SIGNAL = 20.0
_GRACE_AFTER_END = 3.0
# And when the chief has failed, in which time it ends and a launcher ends the others.
GRACE_AFTER_FAILURE = 30.0


def poll_interval(run: RunFolder) -> float:
    """Returns how often to look at the run folder, in seconds."""
    return _REMOTE_POLL if storage.is_remote(run.path) else _LOCAL_POLL


class StopHook(tf.compat.v1.train.SessionRunHook):
    """Ends training after the step under way when there is a reason to; `reason` says which.

    The chief's `CheckpointSaverHook` then saves as at any end, so no step is lost. `max_seconds`
    begin with the first session; what comes before, such as waiting for others, does not count.
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
        self._deadline: float | None = None
        self._max_seconds = max_seconds if is_chief else None
        self.reason: str | None = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begins to count `max_seconds`; one made anew, as after a server was lost, goes on."""
        if self._max_seconds is not None and self._deadline is None:
            self._deadline = self._clock() + self._max_seconds

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
    """Ends a process that waits in TensorFlow for what will not come any more.

    A thread, because a session that waits for a peer does not return to Python: a worker of an
    all-reduce whose chief has stopped, a parameter server. It looks for `TRAINING_DONE.json` (of
    this start of the run: the chief removes older ones first), for a chief that has failed for good
    and for a signal, gives the process some time to end by itself, and then ends it with the exit
    code that is due. The evaluator goes on when training is done, and so does the chief, which only
    a second Ctrl-C ends here once it has made a step: nobody else can save that.
    """

    def __init__(self, run: RunFolder, task: topology.Task, reporter: Reporter) -> None:
        self._run, self._task, self._reporter = run, task, reporter

    def start(self) -> None:
        """Begins to look; the thread dies with the process."""
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    def _look(self) -> None:
        interval = poll_interval(self._run)
        while not signals.stop_requested.wait(interval):
            if self._task.is_chief:
                continue
            failure = failure_of_chief(self._run)
            if failure is not None:
                # A launcher ends this process meanwhile, and tells of the chief alone.
                self._leave(GRACE_AFTER_FAILURE, failure)
            if self._has_no_part_left():
                if self._task.job_name == topology.PS:
                    self._await_workers(interval)
                self._leave(_GRACE_AFTER_END)
        self._stop(interval)

    def _has_no_part_left(self) -> bool:
        ends_with_training = self._task.job_name in (topology.WORKER, topology.PS)
        return ends_with_training and self._run.read(run_folder.TRAINING_DONE) is not None

    def _stop(self, interval: float) -> None:
        """Ends a process that does not end by itself after a signal, if it may be ended."""
        if self._has_no_part_left():
            self._leave(0.0)
        if self._task.job_name == topology.PS:
            # A machine that shuts down asks all of them, and those that train are to save.
            self._await_workers(interval)
        training = self._task.job_name in topology.TRAINING_ROLES
        grace = _GRACE_AFTER_SIGNAL if training else 0.0
        insisted = signals.insisted.wait(grace)
        if self._may_have_to_save():
            insisted = signals.insisted.wait()
        what = "stopped"
        if training:
            what += " at once" if insisted else " while waiting for another process"
        self._leave(0.0, errors.RetryableError(f"{what}. Run the same command to go on."))

    def _may_have_to_save(self) -> bool:
        """A chief that still waits for the others before its first step has nothing to save; a
        single process waits for nobody."""
        return self._task.is_chief and (self._reporter.has_made_steps or not self._task.cluster)

    def _await_workers(self, interval: float) -> None:
        """Serves on until no training process says that it still needs this one, if that does not
        take long."""
        deadline = time.monotonic() + _GRACE_AFTER_SIGNAL
        while time.monotonic() < deadline:
            statuses = run_folder.read_statuses(self._run)
            busy = [
                status
                for name, status in statuses.items()
                if name.rpartition("-")[0] in topology.TRAINING_ROLES
                and status.state not in run_folder.ENDED
            ]
            if not busy or signals.insisted.wait(interval):
                return

    def _leave(self, after: float, error: errors.PipelineError | None = None) -> None:
        time.sleep(after)
        code = 0 if error is None else error.exit_code
        with contextlib.suppress(errors.PipelineError):  # of a full disk
            if error is None:
                self._reporter.say("done", exit_code=0)
            else:
                print(redaction.redact(f"error: {error}"), file=sys.stderr, flush=True)
                state = "stopped" if signals.stop_requested.is_set() else "failed"
                self._reporter.say(state, error=str(error), exit_code=code)
        task_log.copy_now()
        os._exit(code)


def failure_of_chief(run: RunFolder) -> errors.PipelineError | None:
    """Returns the error of a chief that has failed for good; nobody need wait for it any more."""
    chief = run_folder.read_status(run, "chief-0")
    if chief is None or chief.exit_code not in restarts.FINAL_CODES:
        return None
    return errors.of_exit_code(chief.exit_code, f"the chief failed: {chief.error}")
