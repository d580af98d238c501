"""How training ends other than by its number of steps, and how every process finds that out.

The chief decides: a stop file (`make stop`, early stopping), a deadline, or a signal. It then
saves, and writes `TRAINING_DONE.json`, by which the others end: asynchronous workers at their
next step, processes that wait inside TensorFlow for a peer that has gone through `Watch`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.cluster.tolerance import Tolerance
from pipeline.processes import signals
from pipeline.runs import liveness, run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.lifecycle import leaving
from trainer.lifecycle.training_time import TrainingTime
from trainer.monitoring.status_reporter import Reporter

_LOCAL_POLL = 0.5  # seconds between looks at the run folder
_REMOTE_POLL = 10.0
# How long a process may take to end by itself. After a signal it may have to finish a long step; it
# has this share of `cluster.stop_seconds`, so that a launcher need not kill it. When training is
# over there is nothing left to wait for, in seconds.
_SHARE_AFTER_SIGNAL = 2 / 3
_GRACE_AFTER_END = 3.0
# How soon a second Ctrl-C is noticed.
_MOMENT = 0.1
# And when the chief has failed, in which time it ends and a launcher ends the others.
GRACE_AFTER_FAILURE = 30.0


def poll_interval(run: RunFolder, task: topology.Task) -> float:
    """Returns the time between looks of a process at the run folder, in seconds."""
    return _REMOTE_POLL if storage.is_remote(run.path) else task.spread(_LOCAL_POLL)


class StopHook(tf.compat.v1.train.SessionRunHook):
    """Ends training after the step under way when there is a reason to; `reason` says which, and
    `is_final` whether the same command would end again at once.

    The chief's `CheckpointSaverHook` then saves as at any end, so no step is lost. `max_seconds`
    are those of the run, over all its starts, each from its first session on; what comes before,
    such as waiting for others, does not count.

    Training also ends when small files have failed for `patience` seconds: the marker that is
    looked for, or the status of the process, which `writing` tells of. That is a `failure`.
    """

    def __init__(
        self,
        run: RunFolder,
        task: topology.Task,
        *,
        max_seconds: float | None,
        writing: Tolerance | None = None,
        patience: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run.impatient
        self._marker = run_folder.STOP if task.is_chief else run_folder.TRAINING_DONE
        self._interval = poll_interval(run, task)
        self._clock = clock
        self._looked = clock()
        self._time = TrainingTime(self._run, clock) if task.is_chief else None
        self._max_seconds = math.inf if max_seconds is None else max_seconds
        looking = Tolerance("looking for a request to stop", clock=clock)
        self._looking, self._writing, self._patience = looking, writing, patience
        self.reason: str | None = None
        self.is_final = False
        self.failure: errors.RetryableError | None = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begins to count the seconds of training, unless that has begun."""
        if self._time is not None:
            self._time.begin()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Looks at the signals after each step, at the run folder now and then."""
        if self._time is not None:
            self._time.keep()
        self.reason = self.reason or self._find_reason()
        if self.reason is not None:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        """Keeps the seconds of training."""
        if self._time is not None:
            self._time.keep(now=True)

    def _find_reason(self) -> str | None:
        if signals.stop_requested.is_set():
            return "signal"
        now = self._clock()
        if self._time is not None and self._time.seconds >= self._max_seconds:
            self.is_final = True
            return f"{run_folder.DEADLINE}: train.max_seconds={self._max_seconds:g}"
        if now - self._looked < self._interval:
            return None
        self._looked = now
        with self._looking.survive():
            marker = self._run.read(self._marker)
            if marker is not None:
                self.is_final = bool(marker.get("final"))
                return str(marker["reason"])
        return self._find_failure()

    def _find_failure(self) -> str | None:
        for tolerance in filter(None, (self._looking, self._writing)):
            if tolerance.seconds > self._patience:
                self.failure = errors.RetryableError(
                    f"files in {self._run.path!r} could not be read or written for "
                    f"{tolerance.seconds:.0f} s ({tolerance.failure}), so training saved a "
                    "checkpoint and ended. Run the same command again to resume."
                )
                return str(self.failure)
        return None


class Watch:
    """Ends a process that waits in TensorFlow for what will not come any more.

    Threads, because a session that waits for a peer does not return to Python: a worker of an
    all-reduce whose chief has stopped, a parameter server. One looks for `TRAINING_DONE.json` (of
    this start of the run: the chief removes older ones first) and for a chief that has failed for
    good; a look that fails is made again. The other obeys signals, also while the run folder cannot
    be read. Each gives the process some time to end by itself, and then ends it with the exit code
    that is due. The evaluator continues when training is done, and so does the chief, which only a
    second Ctrl-C ends here once it has made a step: nothing else can save that.
    """

    def __init__(
        self,
        run: RunFolder,
        task: topology.Task,
        reporter: Reporter,
        *,
        stop_seconds: float = 30.0,
        after_end: float = _GRACE_AFTER_END,
        after_failure: float = GRACE_AFTER_FAILURE,
    ) -> None:
        self._run, self._task, self._reporter = run.impatient, task, reporter
        self._grace = _SHARE_AFTER_SIGNAL * stop_seconds
        self._after_end, self._after_failure = after_end, after_failure
        self._interval = poll_interval(run, task)
        self._looking = Tolerance(f"{task.name}: looking at the run folder")
        # Set when a parameter server has seen that no training process needs it.
        self._unneeded = threading.Event()
        # True while the chief, as far as is known, writes a checkpoint after a signal.
        self._chief_saves = False

    def start(self) -> None:
        """Begins to look; the threads die with the process."""
        threading.Thread(target=self._obey, name="obey", daemon=True).start()
        if not self._task.is_chief:
            threading.Thread(target=self._look, name="watch", daemon=True).start()

    def _look(self) -> None:
        while True:
            with self._looking.survive():
                self._look_once()
            # A signal is news to look at once, and is not for the time after it.
            stopping = signals.stop_requested.is_set()
            time.sleep(self._interval) if stopping else signals.stop_requested.wait(self._interval)

    def _look_once(self) -> None:
        stopping = signals.stop_requested.is_set()
        chief = run_folder.read_status(self._run, f"{topology.CHIEF}-0") if stopping else None
        self._chief_saves = chief is not None and chief.is_saving
        failure = None if stopping else read_chief_failure(self._run)
        if failure is not None:
            # A launcher ends this process meanwhile, and tells of the chief alone.
            self._leave(self._after_failure, failure)
        ends_with_training = self._task.job_name in (topology.WORKER, topology.PS)
        if ends_with_training and self._run.read(run_folder.TRAINING_DONE) is not None:
            if self._task.job_name == topology.PS:
                self._await_workers()
            self._leave(0.0 if stopping else self._after_end)
        elif stopping and self._task.job_name == topology.PS and not self._is_needed():
            self._unneeded.set()

    def _obey(self) -> None:
        """Ends a process that does not end by itself after a signal, if it may be ended."""
        signals.stop_requested.wait()
        if self._task.job_name == topology.PS:
            # A machine that shuts down asks all of them, and those that train are to save.
            self._await_end_of_need()
        training = self._task.job_name in topology.TRAINING_ROLES
        insisted = signals.insisted.wait(self._grace if training else 0.0)
        while training and self._chief_saves and not insisted:
            insisted = signals.insisted.wait(_MOMENT)
        if self._may_have_to_save():
            insisted = signals.insisted.wait()
        what = "stopped"
        if training:
            what += " at once" if insisted else " while waiting for another process"
        self._leave(0.0, errors.StoppedError(f"{what}. Run the same command to resume."))

    def _may_have_to_save(self) -> bool:
        """A chief that still waits for the others before its first step has nothing to save; a
        single process does not wait."""
        return self._task.is_chief and (self._reporter.has_made_steps or not self._task.cluster)

    def _await_end_of_need(self) -> None:
        deadline = time.monotonic() + self._grace
        while time.monotonic() < deadline or self._chief_saves:
            if self._unneeded.is_set():
                return
            if signals.insisted.wait(_MOMENT):
                return

    def _await_workers(self) -> None:
        """Serves on until no training process says that it still needs this one, if that does not
        take long."""
        deadline = time.monotonic() + self._grace
        while time.monotonic() < deadline:
            with self._looking.survive():
                if not self._is_needed():
                    return
            if signals.insisted.wait(self._interval):
                return

    def _is_needed(self) -> bool:
        return any(
            name.rpartition("-")[0] in topology.TRAINING_ROLES
            and liveness.find_process_state(self._run, status, time.time()) not in liveness.OVER
            for name, status in run_folder.read_statuses(self._run).items()
        )

    def _leave(self, after: float, error: errors.PipelineError | None = None) -> None:
        time.sleep(after)
        leaving.leave(self._reporter, error)


def read_chief_failure(run: RunFolder) -> errors.PipelineError | None:
    """Returns the error of a chief that has failed for good; no process need wait for it."""
    return get_failure(run_folder.read_status(run, "chief-0"))


def get_failure(chief: run_folder.Status | None) -> errors.PipelineError | None:
    """Returns the error in a chief's status if it has failed for good."""
    if chief is None or chief.exit_code not in errors.FINAL_CODES:
        return None
    return errors.build_from_exit_code(chief.exit_code, f"the chief failed: {chief.error}")
