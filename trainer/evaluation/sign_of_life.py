"""What the evaluating process says of itself while it evaluates."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.monitoring.status_reporter import Reporter


class SignOfLife(tf.compat.v1.train.SessionRunHook):
    """Reports the batches of an evaluation, so that it is not taken for a hang."""

    def __init__(self, reporter: Reporter, what: str = "batches") -> None:
        """Batches are of an evaluation; another `what` is part of a longer piece of work."""
        self._reporter, self._what = reporter, what
        self._batches = 0

    def begin(self) -> None:
        """Reports that it begins."""
        self._batches = 0
        if self._what == "batches":
            self._reporter.watch.enter("evaluation")
            self._reporter.report("evaluating")
        self._reporter.report_progress(self._what)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a batch."""
        self._batches += 1
        self._reporter.report_progress(self._what, self._batches)
