"""Tells the stopwatch of a process when steps begin and end, and how long they wait for input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pipeline.cluster import topology
from trainer.monitoring.stopwatch import Stopwatch

_COLLECTION = "pipeline/input_wait"


def watch_input(batch: Sequence[Any], ready: Any = None) -> None:
    """Adds to the graph of a step how long it waits for its batch, a list of tensors that may have
    gaps, and how long before that came it was `ready`, if that is known; once a replica. No op that
    was made of them before runs until their time is taken: a model that blocks in Python would keep
    the clock waiting, too."""
    tensors = [one for one in batch if one is not None]
    users = _find_users(tensors)
    with tf.device("/device:CPU:0"):
        began = tf.timestamp()
        with tf.control_dependencies(tensors):
            came = tf.timestamp()
        times = tf.stack([came - began, *([] if ready is None else [came - ready])])
    for op in users:
        op._add_control_input(came.op)  # as tf.control_dependencies does for an op it makes
    tf.compat.v1.add_to_collection(_COLLECTION, times)


def _find_users(batch: Sequence[Any]) -> list[Any]:
    """Returns the ops that take tensors of a batch. Those that make other tensors of it are left
    out, and those of parameter servers: another process need not wait for the clock of this one."""
    makers = set()
    waiting = [one.op for one in batch]
    while waiting:
        op = waiting.pop()
        if op not in makers:
            makers.add(op)
            waiting += [*(x.op for x in op.inputs), *op.control_inputs]
    users = dict.fromkeys(op for one in batch for op in one.consumers())
    return [op for op in users if op not in makers and not _is_remote(op)]


def _is_remote(op: Any) -> bool:
    """Returns whether a parameter server runs it: what uses a variable runs where that is."""
    places = [op, *(x.op for x in op.inputs if x.dtype == tf.resource)]
    return any(tf.DeviceSpec.from_string(one.device).job == topology.PS for one in places)


class StopwatchHook(tf.compat.v1.train.SessionRunHook):
    """Tells the stopwatch of steps. It must be the first hook: what others do is between steps."""

    def __init__(self, watch: Stopwatch, examples: int) -> None:
        """`examples` are those of a step of this process."""
        self._watch, self._of_step = watch, examples

    def begin(self) -> None:
        """Finds the tensors; a collection of tensors would be written with every checkpoint."""
        graph = tf.compat.v1.get_default_graph()
        self._times = list(graph.get_collection(_COLLECTION))
        graph.clear_collection(_COLLECTION)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Training begins, or begins again after a peer was lost."""
        self._watch.begin()

    def before_run(self, run_context: Any) -> Any:
        """A step begins."""
        self._watch.enter("step")
        return tf.compat.v1.train.SessionRunArgs(self._times)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """A step has been made."""
        # Of the replica whose batch is latest.
        waited = max((float(times[0]) for times in run_values.results), default=0.0)
        early = min(
            (float(times[1]) for times in run_values.results if len(times) > 1), default=None
        )
        self._watch.record_step(self._of_step, waited, early)

    def end(self, session: Any) -> None:
        """There are no more steps."""
        self._watch.finish()
