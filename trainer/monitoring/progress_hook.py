"""What a training process says of itself while it trains.

Hooks rather than saving listeners, because Estimator drops listeners on one of its two cluster
paths (docs/tensorflow-pitfalls.md#saving-listeners).
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from trainer.monitoring import event_files
from trainer.monitoring.peers import Peers
from trainer.monitoring.status_reporter import Reporter

_train = tf.compat.v1.train
_RATE = "examples_per_second"
_TRAINING = "training"
# TensorFlow prepares what a session runs in its first step, which fetches more, and in the second.
_SLOW_STEPS = 2


class ProgressHook(tf.compat.v1.train.SessionRunHook):
    """Reports step, loss and examples per second, and writes the latter as a summary.

    Step and loss are fetched only when a report is due: every fetch costs a little each step. In
    between the steps of this process are counted; of asynchronous ones others make more.
    `model_dir` is where the summary goes; `None` writes none (all but the chief). There are also
    those of `peers`, now and then.
    """

    def __init__(
        self,
        reporter: Reporter,
        batch_size: int,
        summary_steps: int,
        *,
        model_dir: str | None,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers
        self._reporter = reporter
        self._batch_size = batch_size
        self._summary_steps = summary_steps
        self._model_dir = model_dir
        self._local_steps = 0
        self._begun = 0  # local steps when the session was made
        self._offset = 0  # of the newest step known, from the local steps
        self._first_reported = False
        self._since = (0, 0.0)  # local steps and time at the last report
        self._summarised = (0, 0.0)
        self._newest_loss: float | None = None

    def begin(self) -> None:
        self._step = _train.get_or_create_global_step()
        # Estimator adds the loss of any model_fn to this collection, last.
        self._loss = tf.compat.v1.losses.get_losses()[-1]

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._begun = self._local_steps
        self._since = self._summarised = (self._local_steps, time.perf_counter())
        step = int(session.run(self._step))
        self._offset = step - self._local_steps
        self._reporter.report(_TRAINING, step=step)
        self._first_reported = False

    def before_run(self, run_context: Any) -> Any:
        wanted = self._reporter.due or self._summary_due or self._resumed
        return _train.SessionRunArgs([self._step, self._loss]) if wanted else None

    @property
    def _resumed(self) -> bool:
        """True until the first step of a session is reported, and after an evaluation in turn."""
        return not self._first_reported or self._reporter.status.state != _TRAINING

    @property
    def _summary_due(self) -> bool:
        done, _ = self._summarised
        return self._model_dir is not None and self._local_steps - done >= self._summary_steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._local_steps += 1
        if self._local_steps - self._begun == _SLOW_STEPS:
            self._since = (self._local_steps, time.perf_counter())
        if run_values.results is None:
            self._reporter.count_step(self._offset + self._local_steps)
            return
        step, loss = int(run_values.results[0]), float(run_values.results[1])
        # What is fetched may be from before the update of this step.
        self._offset = max(self._offset, step - self._local_steps)
        self._reporter.count_step(self._offset + self._local_steps)
        self._newest_loss = loss
        if self._model_dir is not None and self._summary_due:
            rate, self._summarised = self._compute_rate(self._summarised)
            event_files.write(self._model_dir, step, {_RATE: rate, **self._read_peers()})
        if self._resumed:
            # At once, and not when due: by it the supervisor knows that training continues.
            self._first_reported = True
            self._since = (self._local_steps, time.perf_counter())
            self._reporter.report(_TRAINING, step=step, loss=loss)
        elif self._reporter.due and self._local_steps == self._since[0]:
            self._reporter.report(_TRAINING, step=step, loss=loss)
        elif self._reporter.due:
            rate, self._since = self._compute_rate(self._since)
            self._reporter.report(_TRAINING, step=step, loss=loss, examples_per_second=rate)

    def end(self, session: Any) -> None:
        # A short run may not have told any loss since its first step.
        step = int(session.run(self._step))
        self._reporter.report(_TRAINING, step=step, loss=self._newest_loss)
        if self._model_dir is not None and (rates := self._read_peers(now=True)):
            event_files.write(self._model_dir, step, rates)

    def _compute_rate(self, mark: tuple[int, float]) -> tuple[float, tuple[int, float]]:
        now = time.perf_counter()
        steps, seconds = self._local_steps - mark[0], now - mark[1]
        return steps * self._batch_size / max(seconds, 1e-9), (self._local_steps, now)

    def _read_peers(self, *, now: bool = False) -> dict[str, float]:
        rates = {} if self._peers is None else self._peers.read_rates(now=now)
        return {f"{_RATE}/{name}": rate for name, rate in rates.items()}
