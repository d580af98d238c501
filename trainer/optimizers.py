"""Optimizers by name, and how gradients of several processes become one update.

They are made anew for every graph, and are the `tf.compat.v1` ones: Keras optimizers do not
count the global step, and the new ones cannot run in graph mode (traps A31).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pipeline import config, topology

_train = tf.compat.v1.train

_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "adam": _train.AdamOptimizer,
    "sgd": _train.GradientDescentOptimizer,
    "momentum": lambda rate: _train.MomentumOptimizer(rate, momentum=0.9),
    "adagrad": _train.AdagradOptimizer,
}

# Hooks a train op cannot do without; the Estimator gets those found here.
HOOKS = "pipeline/training_hooks"


@dataclasses.dataclass(frozen=True)
class Updates:
    """How one process updates the parameters; model functions get it as `params["optimizer"]`.

    `synchronize` is None, or how many gradients of how many processes make one update.
    """

    name: str
    learning_rate: float
    synchronize: tuple[int, int] | None = None
    is_chief: bool = True


def updates(job: config.Config, task: topology.Task) -> Updates:
    """Resolves the config for one process."""
    optimizer = job.train.optimizer
    workers = topology.role_counts(job.cluster)[topology.WORKER] + 1
    synchronize = None
    if job.cluster.strategy == "parameter_server_sync":
        synchronize = (workers - job.cluster.backup_workers, workers)
    return Updates(optimizer.name, topology.learning_rate(job), synchronize, is_chief=task.is_chief)


def train_op(loss: Any, how: Updates) -> Any:
    """Returns the op that applies one update for `loss` and counts one global step."""
    rate = tf.constant(how.learning_rate, tf.float32)
    with tf.compat.v1.get_default_graph().name_scope(None):  # heads build within a scope of theirs
        tf.compat.v1.summary.scalar("learning_rate", rate)
    optimizer = _BY_NAME[how.name](rate)
    if how.synchronize is not None:
        aggregate, total = how.synchronize
        optimizer = _train.SyncReplicasOptimizer(
            optimizer, replicas_to_aggregate=aggregate, total_num_replicas=total
        )
    op = optimizer.minimize(loss, global_step=_train.get_or_create_global_step())
    if how.synchronize is not None:
        # Needed by every process, not by the chief alone (traps A23). No tokens at the start: with
        # the usual ones the chief makes the first updates out of its own gradients alone.
        tf.compat.v1.add_to_collection(
            HOOKS, optimizer.make_session_run_hook(how.is_chief, num_tokens=0)
        )
        if how.is_chief:
            tf.compat.v1.add_to_collection(HOOKS, _EndTogetherHook(optimizer))
    return op


class _EndTogetherHook(tf.compat.v1.train.SessionRunHook):
    """Lets all processes of synchronous parameter servers end when the chief does.

    Without it the others wait for a token, and the chief's queue runner for gradients, which
    nobody will send any more. Must be the chief's last hook: it closes the session.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Keeps the coordinator of the queue runners."""
        self._coordinator = coord

    def end(self, session: Any) -> None:
        """Closes the token queue, which ends the others as the end of input does."""
        # First, so that the runner's being cut off does not count as a failure.
        self._coordinator.request_stop()
        session.run(self._optimizer.get_chief_queue_runner().cancel_op)
        session.close()
