"""From which global step training continues, for those who count the steps that were lost."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from trainer.monitoring.status_reporter import Reporter


class ContinuedHook(tf.compat.v1.train.SessionRunHook):
    """Notes the step that a session begins with, for the next word of the process. It must come
    before the hooks that let other processes make steps: of the chief it is what was restored."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def begin(self) -> None:
        """Finds the global step."""
        self._step = tf.compat.v1.train.get_or_create_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Training begins, or begins again after a peer was lost."""
        step = int(session.run(self._step))
        self._reporter.note(continued={"step": step, "time": time.time()})
