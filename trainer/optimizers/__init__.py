"""Optimizers by name, and how gradients of several processes become one update.

They are made again for every graph, and are the `tf.compat.v1` ones: Keras optimizers do not count
the global step, and the new ones cannot run in graph mode
(docs/tensorflow-pitfalls.md#keras-optimizers).
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.config import optimizer_config, strategy_table
from trainer.optimizers import places, row_gradients, schedules
from trainer.optimizers.rowwise_adam import RowwiseAdam

_train = tf.compat.v1.train
_DEFAULTS = optimizer_config.Optimizer()

_BY_NAME: dict[str, Callable[[Any, optimizer_config.Optimizer], Any]] = {
    "adam": lambda rate, how: RowwiseAdam(rate, how.weight_decay),
    "dense_adam": lambda rate, _: _train.AdamOptimizer(rate),
    "sgd": lambda rate, _: _train.GradientDescentOptimizer(rate),
    "momentum": lambda rate, _: _train.MomentumOptimizer(rate, momentum=0.9),
    "adagrad": lambda rate, _: _train.AdagradOptimizer(rate),
    "ftrl": lambda rate, how: _Ftrl(rate, how.l1, how.l2),
}

# Hooks a train op cannot do without; the Estimator gets those found here.
HOOKS = "pipeline/training_hooks"
# Functions that return ops: run with each update of all processes together, after it.
WITH_UPDATE = "pipeline/with_update"
# Functions of whether the gradients of a process are part of the next update of all together, that
# return ops: run by each process ahead of handing them in.
WITH_GRADIENTS = "pipeline/with_gradients"
# Two functions that return ops, see `build_turns`.
TURNS = "pipeline/turns"
# The `Places` of updates that do not wait for all processes.
PLACES = "pipeline/places"
# Seconds that the chief waits for its queue runners before it closes its session.
_GRACE = 5.0


@dataclasses.dataclass(frozen=True)
class Updates:
    """How one process updates the parameters; model functions get it as `params["optimizer"]`.

    `synchronize` is None, or how many gradients of how many processes make one update. `length` is
    when training ends, by which a schedule may be set. Where processes hold copies, gradients of
    tables of up to `dense_rows` rows are as large as these. `settings` holds all else.
    """

    name: str
    learning_rate: float
    synchronize: tuple[int, int] | None = None
    is_chief: bool = True
    length: config.Length | None = None
    dense_rows: int | None = None
    settings: optimizer_config.Optimizer = _DEFAULTS


def updates(job: config.Config, task: topology.Task) -> Updates:
    """Resolves the config for one process."""
    settings = job.train.optimizer
    workers = topology.role_counts(job.cluster)[topology.WORKER] + 1
    synchronize = None
    strategy = strategy_table.STRATEGIES[job.cluster.strategy]
    if strategy.servers and strategy.synchronous:
        synchronize = (workers - job.cluster.backup_workers, workers)
    return Updates(
        settings.name,
        topology.learning_rate(job),
        synchronize,
        is_chief=task.is_chief,
        length=job.train.length,
        # To gather rows, each process sends its own to all others: of a table of more rows than
        # there are examples in a step, that is less than a sum over the whole table.
        dense_rows=topology.examples_per_step(job) if strategy.reduces_between_processes else None,
        settings=settings,
    )


def train_op(loss: Any, how: Updates) -> Any:
    """Returns the op that applies one update for `loss` and counts one global step."""
    with tf.compat.v1.get_default_graph().name_scope(None):  # heads build within a scope of theirs
        tf.compat.v1.summary.scalar("learning_rate", _build_rate(how)())
        # Some strategies leave the scope for the update: what Adam counts must be called alike.
        return optimizer(how).minimize(loss, global_step=_train.get_or_create_global_step())


def optimizer(how: Updates) -> Any:
    """Returns the `tf.compat.v1` optimizer that does all of `how`. It must be given the global step
    when gradients are applied."""
    made = _BY_NAME[how.name](_build_rate(how), how.settings)
    if how.dense_rows is not None:
        made = _Dense(made, how.dense_rows)
    if how.synchronize is not None:
        made = _Synchronous(made, how)
    if how.settings.clip_norm is not None:
        made = _Clipping(made, how.settings.clip_norm)
    return made


def check(model: str, how: Updates) -> None:
    """Raises `UsageError` if what was built of `model` updates otherwise than `how` says, so that
    each process would go its own way."""
    if how.synchronize is not None and not tf.compat.v1.get_collection(HOOKS):
        raise errors.UsageError(
            f"model.name {model!r}: has an optimizer of its own, which parameter_server_sync "
            "cannot make wait for all processes; update with optimizers.train_op(loss, "
            "params['optimizer']) (docs/models.md), or use STRATEGY=parameter_server"
        )


def build_turns() -> tuple[Any, Any]:
    """Returns two ops, where processes make each update together: by the first, one that has come
    to an end of its step lets another hand in a gradient in its place for the next, and by the
    second it takes such a place. Each update waits for as many gradients as ever."""
    let, join = _take_all(TURNS)
    return let(), join()


def get_standstill() -> places.Standstill | None:
    """Returns what keeps updates from being made while the chief saves; `None` if none is made
    without it."""
    found = _take_all(PLACES)
    return places.Standstill(found[0]) if found else None


def _take_all(collection: str) -> list[Any]:
    """Returns what is in a collection, and clears it: what stays there is written with every
    checkpoint, which functions cannot be."""
    found = tf.compat.v1.get_collection(collection)
    tf.compat.v1.get_default_graph().clear_collection(collection)
    return found


def _build_rate(how: Updates) -> Callable[[], Any]:
    """Returns the learning rate as a function, so that it is made in the graph of the update."""
    return lambda: (
        how.learning_rate
        * schedules.compute_share(
            how.settings.schedule, _train.get_or_create_global_step(), how.length
        )
    )


class _Ftrl(tf.compat.v1.train.FtrlOptimizer):
    """The one optimizer of TensorFlow's that takes no function for a learning rate, does here."""

    def __init__(self, rate: Callable[[], Any], l1: float, l2: float) -> None:
        super().__init__(0.0, l1_regularization_strength=l1, l2_regularization_strength=l2)
        self._rate = rate

    def _prepare(self) -> None:
        self._learning_rate = self._rate()
        super()._prepare()


class _Wrapping(tf.compat.v1.train.Optimizer):
    """Leaves all to the optimizer beneath."""

    @property
    def inner(self) -> Any:
        """The optimizer beneath."""
        raise NotImplementedError

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns gradients and variables."""
        return self.inner.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the update."""
        return self.inner.apply_gradients(*args, **kwargs)

    def variables(self) -> Any:
        """Returns what it remembers."""
        return self.inner.variables()


class PerGraph(_Wrapping):
    """What makes its optimizer again for every graph: Keras uses one for several."""

    def __init__(self, how: Updates) -> None:
        super().__init__(use_locking=False, name="PerGraph")
        self._how = how
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    @property
    def inner(self) -> Any:
        """The optimizer of this graph."""
        graph = tf.compat.v1.get_default_graph()
        if graph not in self._made:
            self._made[graph] = optimizer(self._how)
        return self._made[graph]


class _Dense(_Wrapping):
    """Makes gradients of some rows of a small variable gradients of all of it, and of a large one
    those of each row once."""

    def __init__(self, inner: Any, rows: int) -> None:
        super().__init__(use_locking=False, name="Dense")
        self._inner = inner
        self._rows = rows

    @property
    def inner(self) -> Any:
        """The optimizer that gets them."""
        return self._inner

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns gradients and variables, but for those that have none."""
        pairs = super().compute_gradients(*args, **kwargs)
        return [(self._prepare_gradient(g, v), v) for g, v in pairs if g is not None]

    def _prepare_gradient(self, gradient: Any, variable: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices) and variable.shape[0] > self._rows:
            return row_gradients.sum_by_row(gradient)
        return tf.convert_to_tensor(gradient)


class _Clipping(_Wrapping):
    """Shortens the gradients of a replica, all together, to a norm, before they are added to those
    of others."""

    def __init__(self, inner: Any, norm: float) -> None:
        super().__init__(use_locking=False, name="Clipping")
        self._inner = inner
        self._norm = norm

    @property
    def inner(self) -> Any:
        """The optimizer that gets shortened gradients."""
        return self._inner

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns gradients and variables, but for those that have none."""
        pairs = super().compute_gradients(*args, **kwargs)
        # Under a strategy they are of the loss divided by the number of replicas.
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        # Rows of a table that several lookups asked for are added up first: the norm is of sums.
        known = [(row_gradients.sum_by_row(g), v) for g, v in pairs if g is not None]
        clipped, _ = tf.clip_by_global_norm([g for g, _ in known], self._norm / replicas)
        return [(g, v) for g, (_, v) in zip(clipped, known, strict=True)]


class _Accompanied(_Wrapping):
    """Runs what `WITH_UPDATE` has after the update, and then what `finish` returns; the next one
    waits for that."""

    def __init__(self, inner: Any, finish: Callable[[], Any]) -> None:
        super().__init__(use_locking=False, name="Accompanied")
        self._inner = inner
        self._finish = finish

    @property
    def inner(self) -> Any:
        """The optimizer that updates."""
        return self._inner

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the update and what goes with it."""
        update = super().apply_gradients(*args, **kwargs)
        with tf.control_dependencies([update]):
            others = [make() for make in tf.compat.v1.get_collection(WITH_UPDATE)]
        with tf.control_dependencies([update, *others]):
            return self._finish()


class _Synchronous(tf.compat.v1.train.SyncReplicasOptimizer):
    """Averages gradients of all processes, or of the first that come, and asks for the hooks it
    needs."""

    chief_init_op: Any
    _chief_queue_runner: Any

    def __init__(self, inner: Any, how: Updates) -> None:
        assert how.synchronize is not None
        aggregate, total = how.synchronize
        super().__init__(
            _Accompanied(inner, self._lay_out),
            replicas_to_aggregate=aggregate,
            total_num_replicas=total,
        )
        self._is_chief_process = how.is_chief
        self._waits_for_all = aggregate == total
        self._places: places.Places | None = None

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, **kwargs: Any) -> Any:
        """Returns the update, and leaves the hooks where the Estimator finds them."""
        pairs = list(grads_and_vars)
        if not self._waits_for_all:
            self._places = places.Places(self._replicas_to_aggregate, global_step)
        gradients = [g for g, _ in pairs if g is not None]
        # The first accumulator makes the ops, for all.
        handed_in = functools.cache(lambda: self._hand_in(gradients))
        with row_gradients.average_over_all(handed_in):
            op = super().apply_gradients(pairs, global_step, **kwargs)
        if self._places is not None:
            self._use(self._places)
        # Needed by every process, not by the chief alone
        # (docs/tensorflow-pitfalls.md#syncreplicasoptimizer). No tokens at the start: with the
        # usual ones the chief makes the first updates out of its own gradients alone.
        hook = self.make_session_run_hook(self._is_chief_process, num_tokens=0)
        tf.compat.v1.add_to_collection(HOOKS, hook)
        tf.compat.v1.add_to_collection(TURNS, self._let_another)
        tf.compat.v1.add_to_collection(TURNS, self._take_turn)
        if self._is_chief_process:
            tf.compat.v1.add_to_collection(HOOKS, _EndTogetherHook(self))
        return op

    def _hand_in(self, gradients: Sequence[Any]) -> tf.Tensor:
        """Returns the step by which the accumulators take the gradients of this process."""
        with tf.device(self._global_step.device), tf.name_scope(""):
            taken = tf.constant(True)
            if self._places is not None:
                taken = self._places.take(gradients, self._local_step)
            ops = [make(taken) for make in tf.compat.v1.get_collection(WITH_GRADIENTS)]
            with tf.control_dependencies(ops):
                return places.choose_step(taken, self._local_step)

    def _lay_out(self) -> Any:
        return tf.no_op() if self._places is None else self._places.lay_out()

    def _use(self, laid_out: places.Places) -> None:
        """Lays out places at the start, and lets no process wait for one after the end."""
        tf.compat.v1.add_to_collection(PLACES, laid_out)
        self.chief_init_op = tf.group(self.chief_init_op, laid_out.lay_out())
        runner = self._chief_queue_runner
        self._chief_queue_runner = _train.queue_runner.QueueRunner(
            self._sync_token_queue,
            runner.enqueue_ops,
            close_op=runner.close_op,
            cancel_op=tf.group(runner.cancel_op, laid_out.end()),
        )

    def _let_another(self) -> Any:
        # The step that this process has been let into is the one under way.
        return self._sync_token_queue.enqueue(_train.get_global_step().read_value())

    def _take_turn(self) -> Any:
        return self._local_step.assign(self._sync_token_queue.dequeue())


class _EndTogetherHook(tf.compat.v1.train.SessionRunHook):
    """Lets all processes of synchronous parameter servers end when the chief does.

    Without it the others wait for a token, and the chief's queue runner for gradients, which
    no worker will send any more. A chief that fails would wait two minutes for that thread before
    it closes its session, which ends the thread. Must be the chief's last hook: it closes the
    session.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Keeps the coordinator of the queue runners, and has it wait for them for less time."""
        self._coordinator = coord
        join = coord.join

        def join_soon(*args: Any, **kwargs: Any) -> None:
            join(*args, **{**kwargs, "stop_grace_period_secs": _GRACE})

        coord.join = join_soon

    def end(self, session: Any) -> None:
        """Closes the token queue, which ends the others as the end of input does."""
        # First, so that the runner's being cut off does not count as a failure.
        self._coordinator.request_stop()
        session.run(self._optimizer.get_chief_queue_runner().cancel_op)
        session.close()
