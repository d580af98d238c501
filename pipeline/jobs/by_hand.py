"""The end of a run whose roles were started one by one, for `run.json` and the terminal.

It is what a launcher writes and shows. Without one it is left to the role that knows the end: the
evaluator; the chief where there is no evaluator, and when the chief fails.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

from pipeline import errors
from pipeline.cluster import topology
from pipeline.jobs import display
from pipeline.jobs.job import Job
from pipeline.runs import liveness, run_folder, run_record
from pipeline.runs.run_record import RunRecord

_EVALUATOR = f"{topology.EVALUATOR}-0"
# The end that this process has to record, if its run was started by hand.
_current: EndRecorder | None = None


class EndRecorder:
    """What one process records of the end of its run."""

    def __init__(self, job: Job, task: topology.Task, *, started: float) -> None:
        """`started` is when this process was, in Unix time."""
        self._job, self._run, self._task, self._started = job, job.run, task, started

    def begin(self) -> None:
        """Begins the record, for a chief: what is there is of an earlier start."""
        record = run_record.begin(self._job.config, self._run, by_hand=True)
        record.cluster = {role: list(members) for role, members in self._task.cluster.items()}
        run_record.write(self._run, record)

    def close(self, error: errors.PipelineError | None) -> RunRecord | None:
        """Records the end and returns the record; returns `None` where that is for another: for a
        launcher that looks after the run, or a role that still works on it."""
        record = run_record.read(self._run)
        statuses = run_folder.read_statuses(self._run)
        if record is None or record.launcher is not None or not self._is_end(error, statuses):
            return None
        if error is not None and record.status == "done":
            return None  # another one to evaluate it, such as with another config
        run_record.add_statuses(record, statuses)
        record.final_step = _find_newest_step(statuses)
        record.seconds["total"] = round(time.time() - self._started, 3)
        if error is None and not self._is_evaluated():
            record.status, record.exit_code, record.reason = "trained", 0, liveness.UNEVALUATED
            run_record.write(self._run, record)
            return record
        if error is None:
            record.reason = run_record.reason_of_end(self._run)
            run_record.add_result(record, self._run)
        own = statuses.get(self._task.name)
        stopped = own is not None and own.state == "stopped"
        run_record.close(record, self._run, error, stopped=stopped)
        return record

    def _is_end(
        self, error: errors.PipelineError | None, statuses: Mapping[str, run_folder.Status]
    ) -> bool:
        """True if no other process works on the run when this one has ended."""
        if self._task.is_chief:
            followed = bool(self._task.cluster) and self._is_followed(statuses)
            return error is not None or not followed
        trained = self._run.read(run_folder.TRAINING_DONE) is not None
        return self._task.name == _EVALUATOR and trained

    def _is_evaluated(self) -> bool:
        """True if there is the result of this end, not of an earlier one."""
        result, done = (
            self._run.read(name) for name in (run_folder.RESULT, run_folder.TRAINING_DONE)
        )
        if result is None or done is None:
            return False
        own = not self._task.cluster or not self._task.is_chief
        return own or bool(result["final_step"] == done["final_step"])

    def print_end(self, record: RunRecord) -> None:
        """Prints what a launcher would at the end of the run."""
        if record.status == "trained":
            print(f"training is over, {record.reason}, also now", flush=True)
            return
        own = run_folder.read_status(self._run, self._task.name)
        if own is not None and own.note:
            print(f"{self._task.name}: {own.note}")
        print(display.summary(self._job, record), flush=True)

    def _is_followed(self, statuses: Mapping[str, run_folder.Status]) -> bool:
        """True if there is an evaluator that is running or done, not one that was lost."""
        found = statuses.get(_EVALUATOR)
        if found is None:
            return False
        state = liveness.find_process_state(self._run, found, time.time())
        return state not in ("stopped", "failed", "gone", "silent")


@contextlib.contextmanager
def record_end(ending: EndRecorder) -> Iterator[None]:
    """Records how the run ends with the body, if it ends with it, and tells of it. What fails for
    another reason keeps its own error."""
    global _current
    _current = ending
    try:
        yield
    except KeyboardInterrupt:
        note_end(errors.StoppedError("stopped"))
        raise
    except Exception as error:
        note_end(error)
        raise
    else:
        record = ending.close(None)
        if record is not None:
            ending.print_end(record)
    finally:
        _current = None


def note_end(error: BaseException) -> None:
    """Records that this process ends by `error`, if its run was started by hand; for one that ends
    abruptly. What cannot be written must not hide why it ended."""
    if _current is None:
        return
    if not isinstance(error, errors.PipelineError):
        first = next(iter(str(error).splitlines()), "")
        error = errors.PipelineError(f"{type(error).__name__}: {first}")
    with contextlib.suppress(errors.PipelineError, OSError):
        _current.close(error)


def _find_newest_step(statuses: Mapping[str, run_folder.Status]) -> int | None:
    steps = [
        status.step
        for name, status in statuses.items()
        if name.rpartition("-")[0] in topology.TRAINING_ROLES and status.step is not None
    ]
    return max(steps, default=None)
