"""Ends this process from any of its threads: one that waits inside TensorFlow returns no more."""

from __future__ import annotations

import contextlib
import sys
import threading

from pipeline import errors, redaction
from pipeline.jobs import by_hand
from pipeline.processes import exits, signals
from pipeline.runs import log_writer
from trainer.monitoring.status_reporter import Reporter

# Seconds that the last report may take: a folder that does not answer must not keep the process.
_LAST_REPORT = 10.0
_leaving = threading.Lock()


def leave(reporter: Reporter, error: errors.PipelineError | None = None) -> None:
    """Reports `error`, or that all is done, and ends the process with the exit code that is due.

    Only the first thread to leave reports; the others wait for the end.
    """
    _leaving.acquire()
    code = 0 if error is None else error.exit_code
    try:
        last = threading.Thread(target=_report_end, args=(reporter, error, code), daemon=True)
        last.start()
        last.join(_LAST_REPORT)
    finally:
        exits.exit_at_once(code)


def _report_end(reporter: Reporter, error: errors.PipelineError | None, code: int) -> None:
    with contextlib.suppress(Exception):
        if error is None:
            reporter.report("done", exit_code=0)
        else:
            print(redaction.redact(error.line), file=sys.stderr, flush=True)
            state = "stopped" if signals.stop_requested.is_set() else "failed"
            reporter.report(state, error=str(error), exit_code=code)
            by_hand.note_end(error)
    with contextlib.suppress(Exception):
        log_writer.copy_now()
