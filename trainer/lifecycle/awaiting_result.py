"""How a chief waits for the evaluator, where a platform ends a job when its chief ends.

Vertex AI takes the exit of the primary replica for that of the job, and shuts the others down
(docs/tensorflow-pitfalls.md#the-primary-ends-the-job): the evaluator would be ended before it has
evaluated the final checkpoint and exported it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.processes import signals
from pipeline.runs import fatal, liveness, run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.monitoring.status_reporter import Reporter

_LOCAL_POLL, _REMOTE_POLL = 0.5, 5.0  # seconds between looks at the run folder
# With the result of this very step there, an evaluator that says nothing has ended.
_SETTLED = 60.0
_EVALUATOR = f"{topology.EVALUATOR}-0"


def is_written(
    run: RunFolder,
    submission: str | None,
    reporter: Reporter,
    *,
    patience: float,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], bool] = signals.stop_requested.wait,
) -> bool:
    """Waits until the result of the run is written and its evaluator has ended, and returns true;
    returns false if no evaluator has given a sign of life for `patience` seconds.

    Raises the error of a process of the `submission` that has failed for good, and `RetryableError`
    when asked to stop; `wait` returns true then.
    """
    poll = _REMOTE_POLL if storage.is_remote(run.path) else _LOCAL_POLL
    looks, seen = 0, clock()
    while True:
        fatal.reraise(run, submission)
        there, state = _is_there(run), _describe_evaluator(run)
        if there and state == "done":
            return True
        if state not in (None, *liveness.OVER):
            seen = clock()
        elif clock() - seen >= (min(patience, _SETTLED) if there else patience):
            return there
        looks += 1
        reporter.report_progress("waiting for the evaluator", looks)
        if wait(poll):
            raise errors.StoppedError(
                "stopped while waiting for the evaluator; training is over, and saved. Run the "
                "same command to resume."
            )


def _is_there(run: RunFolder) -> bool:
    """Tells if there is the result of this end of training, not of an earlier one."""
    result, done = run.read(run_folder.RESULT), run.read(run_folder.TRAINING_DONE)
    return None not in (result, done) and result["final_step"] == done["final_step"]  # type: ignore[index]


def _describe_evaluator(run: RunFolder) -> str | None:
    found = run_folder.read_status(run, _EVALUATOR)
    return None if found is None else liveness.find_process_state(run, found, time.time())
