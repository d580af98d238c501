"""The `model_fn` that the Estimator calls: that of the config's model, and what all models get."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from pipeline import config as config_lib
from pipeline.cluster import topology
from pipeline.config import cluster_config, labels_config, model_config, strategy_table
from pipeline.records.feature_plan import Planned
from trainer import models, optimizers
from trainer.checkpoints import checkpoint_files, saving, table_saver, warm_start
from trainer.distribution import packed_edges, placement, replicas
from trainer.exactly_once.reader import Position
from trainer.features import feature_columns
from trainer.features.packing import Packing
from trainer.heads import heads, mean_loss
from trainer.input import grouping, ready_times, slicing, window_feed
from trainer.metrics import one_pass, streaming
from trainer.monitoring import divergence, staleness, stopwatch_hook
from trainer.optimizers import averaging

_MODES = tf.estimator.ModeKeys


class _Origin(NamedTuple):
    """Where the records of a batch are from, a tensor of [batch] each, and when it was ready; None
    outside of training."""

    blocks: tf.Tensor | None
    records: tf.Tensor | None
    places: tf.Tensor | None
    ready: tf.Tensor | None


class ModelFunction:
    """A `model_fn` around another. The graph of each mode is the list of parts in its method."""

    def __init__(
        self,
        model: models.BuiltModel,
        job: config_lib.Config,
        task: topology.Task,
        *,
        position: Position | None,
        packing: Packing | None = None,
        planned: Sequence[Planned] = (),
    ) -> None:
        """Training counts its records in `position`; without one they are not counted. `packing`
        is that of the features it is given, which are `planned`."""
        self._model, self._job, self._task, self._position = model, job, task, position
        self._packing = packing
        self._tables = placement.Tables.of(*feature_columns.list_tables(planned))
        self._strategy = strategy_table.STRATEGIES[job.cluster.strategy]
        self._takes = inspect.signature(model.model_fn).parameters

    def __call__(self, features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
        """Returns the `EstimatorSpec` of one mode."""
        ready = None
        if isinstance(features, ready_times.TimedFeatures):
            features, ready = features
        marks = features if isinstance(features, dict) else {}  # own input may give a tensor
        origin = _Origin(
            blocks=marks.pop(window_feed.BLOCK, None),
            records=marks.pop(window_feed.RECORD, None),
            places=marks.pop(window_feed.PLACE, None),
            ready=ready,
        )
        extras = {name: marks.pop(name) for name in list(filter(slicing.is_extra, marks))}
        offered = {"labels": labels, "mode": mode, "params": params, "config": config}
        if mode == _MODES.TRAIN:
            spec = self._train(features, offered, origin)
        elif mode == _MODES.EVAL:
            spec = self._average_parameters(self._build(features, offered), mode)
            if grouping.FEATURE in extras:
                spec = self._add_group_metrics(spec, extras, labels)
            one_pass.watch(spec.predictions, labels, extras)
            spec = mean_loss.add_mean_loss(spec, features, labels)
        else:
            spec = self._average_parameters(
                heads.make_servable(self._build(features, offered)), mode
            )
        saving.keep_known(spec.scaffold)
        if mode == _MODES.TRAIN:
            table_saver.use(config)
        if self._position is None:  # and so none of its hooks, which clears them
            for name in (optimizers.TURNS, optimizers.PLACES):
                tf.compat.v1.get_default_graph().clear_collection(name)
        return _add_hooks(spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelFunction:
        """Returns itself, as of a function: TensorFlow copies the `model_fn` for several hosts."""
        return self

    def _train(self, features: Any, offered: dict[str, Any], origin: _Origin) -> Any:
        batch = tf.nest.flatten((features, offered["labels"]), expand_composites=True)
        if self._position is not None:
            features, offered["labels"] = self._position.let_in(
                (features, offered["labels"]), origin.blocks, origin.places
            )
        spec = self._average_parameters(self._build(features, offered), _MODES.TRAIN)
        optimizers.check(self._job.model.name, offered["params"]["optimizer"])
        if self._strategy.asynchronous and self._task.cluster:
            staleness.watch(spec)
        # Last: seeds of ops made after it would be others.
        stopwatch_hook.watch_input(batch, origin.ready)
        spec = spec if self._position is None else _count_records(spec, self._position, origin)
        if topology.PS in self._task.cluster and replicas.get_index() == 0:
            # The train op of one replica waits for those of all.
            packed_edges.read_step_plainly()
            packed_edges.pack(spec.train_op)
        return spec

    def _build(self, features: Any, offered: dict[str, Any]) -> Any:
        """Calls the model's own function, where it trains with large variables cut over the
        parameter servers; who evaluates or exports has none."""
        seed(self._job)
        servers = len(self._task.cluster.get(topology.PS, ()))
        trains = offered["mode"] == _MODES.TRAIN
        cuts = trains and servers > 1 and "partition_bytes" in self._strategy.keys
        if self._packing is not None:
            features = self._packing.unpack(features)
        with placement.cut(servers if cuts else 1, find_largest_whole(self._job), self._tables):
            given = {name: offered[name] for name in offered if name in self._takes}
            spec = self._model.model_fn(features, **given)
            begins = checkpoint_files.find_newest(offered["config"].model_dir) is None
            if trains and begins:
                warm_start.begin(self._model.warm_start_from, self._job.model.warm_start)
        return spec

    def _add_group_metrics(self, spec: Any, extras: Mapping[str, tf.Tensor], labels: Any) -> Any:
        settings, ids = self._job.eval, extras[grouping.FEATURE]
        assert settings.group is not None
        grouped = functools.partial(
            streaming.add_group_metrics, column=settings.group, top=settings.top_k
        )
        for name, goal in self._job.labels.items():
            if labels_config.is_binary(goal):
                # Not by its weight: one of 0 does not mean that the label is missing.
                there = extras[slicing.THERE + name]
                spec = grouped(spec, ids, labels[name], label=name, there=there)
        return spec if self._job.labels else grouped(spec, ids, labels)

    def _average_parameters(self, spec: Any, mode: str) -> Any:
        decay = self._job.train.optimizer.average
        if decay is None:
            return spec
        updates = self._task.is_chief or not self._strategy.synchronous
        return averaging.average_parameters(spec, mode, decay, updates=updates)


def find_largest_whole(job: config_lib.Config) -> int | None:
    """Returns the size in bytes above which a variable is cut over the parameter servers; `None`
    where those are cut that would make one server be asked for more than others. Code of users may
    use a variable as parts cannot be used: of theirs only large ones are cut."""
    given = job.cluster.partition_bytes
    is_own = model_config.is_own(job.model)
    return cluster_config.LARGE_VARIABLE if given is None and is_own else given


def seed(job: config_lib.Config) -> None:
    """Makes parameters of layers begin alike in every run: Keras draws the seeds of its
    initializers by itself, whatever the seed of the graph."""
    tf.keras.utils.set_random_seed(job.train.seed)


def _count_records(spec: Any, position: Position, origin: _Origin) -> Any:
    """Counts the records of a batch after the update: what is counted has been applied, or waited
    for with the others."""
    divergence.watch(origin.blocks, origin.records)
    with tf.control_dependencies([spec.train_op]):
        count = position.count(origin.blocks, origin.places)
    return spec._replace(train_op=tf.group(count))


def _add_hooks(spec: Any) -> Any:
    """Adds the hooks that train ops have asked for. What stays in a collection is written with
    every checkpoint, which hooks cannot be."""
    hooks = tf.compat.v1.get_collection(optimizers.HOOKS)
    for name in (optimizers.HOOKS, optimizers.WITH_UPDATE, optimizers.WITH_GRADIENTS):
        tf.compat.v1.get_default_graph().clear_collection(name)
    return spec._replace(training_hooks=(*spec.training_hooks, *hooks))
