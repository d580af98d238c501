"""Traces of single steps: a few for how the time of a step is split, more if a profile is wanted.

Tracing is asked for step by step, as `tf.compat.v1.train.ProfilerHook` does. Between traces this
costs two readings of the clock a step.

Of each process its status file, `run.json` and, for the chief, summaries say in seconds: `step`,
an average session call without trace; `between_steps`, hooks without saves and evaluations, an
average too; and of one traced step `compute`, `exchange`, `input` and `other` (`step_time`). With
parameter servers they also have what the last traced steps asked of each (`server_load`).
"""

from __future__ import annotations

import collections
import dataclasses
import gzip
import statistics
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.client import timeline  # as ProfilerHook; it has no public name

from pipeline import config, storage
from pipeline.runs.run_folder import RunFolder
from trainer.monitoring import event_files, server_load, step_time
from trainer.monitoring.status_reporter import Reporter

# Where TensorBoard's profile plugin looks for profiles of a run, and the files of its trace viewer:
# a folder each profile, in which a file is a host.
FOLDER, _SUFFIX = "plugins/profile", ".trace.json.gz"
# Steps: the first ones start things up. The first trace is not in a step whose number is round, as
# others ask for more in these: a server's first step with another set of tensors is slow.
_WARM_UP, _FIRST = 5, 13
# Between two traces there are some steps, a second, and so many times the median of what traces
# cost that their mean, which is up to twice as much with servers, is half a percent.
_INTERVAL, _COSTS = 1.0, 400
_STEPS = 5
# A step that happens to wait long is dear as if tracing were, so it is the median of the last few
# traces; before there is another one this many seconds are waited at most.
_LAST, _ALONE = 5, 60.0
_TELL = 10.0  # seconds between what is told and summarised

_train = tf.compat.v1.train


@dataclasses.dataclass
class _Mean:
    """The mean of some seconds."""

    total: float = 0.0
    count: int = 0

    def add(self, seconds: float) -> None:
        self.total += seconds
        self.count += 1

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else 0.0


class TraceHook(tf.compat.v1.train.SessionRunHook):
    """Says how the time of a step is split, and writes the traces of a profile.

    The stopwatch learns the exchange of one step a second. The split of one step every ten seconds
    goes to the status file, and as summaries to `model_dir` (`None` for all but the chief). Steps
    of `profile` are written to `plugins/profile/step-<step>/<task>.trace.json.gz`, which
    TensorBoard's profile plugin, chrome://tracing and ui.perfetto.dev open.
    """

    def __init__(
        self,
        run: RunFolder,
        task_name: str,
        reporter: Reporter,
        *,
        profile: config.Profile | None,
        model_dir: str | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._run = run
        self._task_name = task_name
        self._reporter = reporter
        self._profile = profile
        self._model_dir = model_dir
        self._clock = clock
        self._steps = 0
        self._began = 0.0
        # What the stopwatch had of the time between steps at the last step; `None` after a trace.
        self._between: float | None = None
        # Of session calls without trace, and of the time between steps, since the last report.
        self._calls, self._gaps = _Mean(), _Mean()
        self._next_at: float | None = None
        self._next_step = _FIRST
        self._costs: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._step = 0
        self._wanted = False
        self._average = 0.0
        self._has_told = False
        self._told_at: float | None = None  # of a step that was like others
        self._loads = server_load.ServerLoads()
        self._warned = False

    def begin(self) -> None:
        """Finds the global step, which is fetched each step by others anyway."""
        self._step_tensor = _train.get_or_create_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Takes the step that training continues from."""
        self._step = int(session.run(self._step_tensor))
        self._between = None

    def before_run(self, run_context: Any) -> Any:
        """Asks for a trace if one is due."""
        self._began = self._clock()
        between = self._reporter.watch.between
        if self._between is not None:
            self._gaps.add(between - self._between)
        self._between = between
        self._wanted = self._in_profile or self._is_due
        options = None
        if self._wanted:
            # Only this level collects what the other processes did.
            options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        return _train.SessionRunArgs(self._step_tensor, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Reads the trace, or counts the time of a step without one."""
        seconds = self._clock() - self._began
        self._steps += 1
        if not self._wanted:
            self._calls.add(seconds)
            if self._steps == _WARM_UP:
                self._calls, self._gaps = _Mean(), _Mean()
        else:
            if self._in_profile:
                self._write_profile(run_values.run_metadata.step_stats)
            if self._is_due and self._calls.count:
                is_alike = self._read(run_values.run_metadata.step_stats)
                self._costs.append(self._clock() - self._began - self._average)
                self._next_at = self._clock() + self._choose_pause(is_alike)
                self._next_step = self._steps + _STEPS
            self._between = None  # the time that took is not training's
        self._step = int(run_values.results) + 1

    @property
    def _in_profile(self) -> bool:
        window = self._profile
        return window is not None and window.start <= self._step < window.stop

    @property
    def _is_due(self) -> bool:
        if self._steps < self._next_step:
            return False
        return self._next_at is None or self._clock() >= self._next_at

    def _choose_pause(self, is_alike: bool) -> float:
        """Returns the seconds until the next trace, after one of a step that was like others."""
        paid = _COSTS * statistics.median_low(self._costs)
        if len(self._costs) == 1:
            paid = min(paid, _ALONE) if is_alike else 0.0
        return max(_INTERVAL, paid)

    def _read(self, step_stats: Any) -> bool:
        """Returns whether the step was like others; of one that was not is told only until there is
        one that was."""
        self._average = self._calls.value
        split = step_time.split(step_stats, self._average)
        is_alike = self._reporter.watch.record_trace(split.seconds["exchange"], split.hidden)
        self._loads.add(step_stats)
        if is_alike:
            is_due = self._told_at is None or self._clock() - self._told_at >= _TELL
            self._told_at = self._clock() if is_due else self._told_at
        else:
            is_due = not self._has_told
        if is_due:
            self._has_told = True
            between = self._gaps.value
            self._report({"step": self._average, "between_steps": between, **split.seconds})
            self._calls, self._gaps = _Mean(), _Mean()
        return is_alike

    def _report(self, found: dict[str, float]) -> None:
        self._reporter.note_seconds(found)
        loads = self._loads.per_step
        if loads:
            self._reporter.note(servers=[dataclasses.asdict(load) for load in loads])
        warning = None if self._warned else self._loads.describe_imbalance()
        if warning is not None:
            self._warned = True
            tf.get_logger().warning("%s", warning)
            self._reporter.add_note(warning)
        if self._model_dir is not None:
            scalars = {f"seconds/{name}": value for name, value in found.items()}
            scalars |= server_load.build_summaries(loads)
            event_files.write(self._model_dir, self._step, scalars)

    def _write_profile(self, step_stats: Any) -> None:
        trace = timeline.Timeline(step_stats).generate_chrome_trace_format()
        folder = storage.join(self._run.path, FOLDER, f"step-{self._step}")
        storage.makedirs(folder)
        path = storage.join(folder, f"{self._task_name}{_SUFFIX}")
        with storage.open_file(path, "wb") as file:
            file.write(gzip.compress(trace.encode()))


class CheckpointTimes:
    """Tells how long saves made training stand still: a summary each, their sum in the status."""

    def __init__(self, model_dir: str, reporter: Reporter) -> None:
        self._model_dir = model_dir
        self._reporter = reporter
        self._total = 0.0

    def __call__(self, step: int, seconds: float) -> None:
        """Notes one save."""
        self._total += seconds
        self._reporter.note_seconds({"checkpoints": self._total})
        event_files.write(self._model_dir, step, {"seconds/checkpoint": seconds}, flush=True)
