"""A hook that counts what recording costs a run: the stopwatch, and traces of steps.

Importing this wraps what they do around a step. Counted are the seconds in these calls, and of
steps that are traced what they take longer than the others, on average: with servers a few steps
are much longer than most, traced or not.
"""

from __future__ import annotations

import json
import os
import statistics
import time

import tensorflow as tf

from pipeline.cluster import topology
from trainer.monitoring import stopwatch_hook, trace_hook

_WARM_UP = 5  # steps; the first trace comes after that
_spent = {"calls": 0.0}
_traced: list[bool] = []


def _count(hook: type, name: str) -> None:
    wrapped = getattr(hook, name)

    def call(self, *args):
        began = time.perf_counter()
        result = wrapped(self, *args)
        _spent["calls"] += time.perf_counter() - began
        if hook is trace_hook.TraceHook and name == "before_run":
            _traced.append(result.options is not None)
        return result

    setattr(hook, name, call)


for _hook in (stopwatch_hook.StopwatchHook, trace_hook.TraceHook):
    for _name in ("before_run", "after_run"):
        _count(_hook, _name)


class Recording(tf.compat.v1.train.SessionRunHook):
    """Writes `recording` and `training`, in seconds, to the file named by PYTHON_RECORDING."""

    def begin(self):
        """Starts anew."""
        self._steps = []

    def before_run(self, run_context):
        """A step begins."""
        self._began = time.perf_counter()

    def after_run(self, run_context, run_values):
        """A step ends."""
        now = time.perf_counter()
        if len(self._steps) == _WARM_UP:
            self._from, _spent["calls"] = now, 0.0
        self._steps.append(now - self._began)

    def end(self, session):
        """Writes what was counted, if this is the chief."""
        role = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("type")
        if role not in (None, topology.CHIEF):
            return
        whole = time.perf_counter() - self._from
        steps = list(zip(self._steps, _traced, strict=False))[_WARM_UP + 1 :]
        plain = statistics.fmean(seconds for seconds, traced in steps if not traced)
        longer = sum(seconds - plain for seconds, traced in steps if traced)
        found = {
            "recording": _spent["calls"] + max(0.0, longer),
            "calls": _spent["calls"],
            "traces": longer,
            "traced": sum(traced for _, traced in steps),
            "steps": len(steps),
            "training": whole,
        }
        with open(os.environ["PYTHON_RECORDING"], "w", encoding="utf-8") as file:
            json.dump(found, file)
