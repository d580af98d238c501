"""The trainer's centre: an Estimator with what it trains on and how it is judged."""

from __future__ import annotations

import dataclasses
import inspect
import os
from typing import Any

import tensorflow as tf

from pipeline import config
from pipeline.cluster import tolerance, topology
from pipeline.config import model_config
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer import models, optimizers
from trainer.checkpoints import checkpoint_files, save_pace, saving, warm_start
from trainer.checkpoints.cleanup import Janitor
from trainer.distribution import placement, sessions, strategies
from trainer.evaluation import skipped
from trainer.evaluation.evaluator import Evaluation, SignOfLife
from trainer.exactly_once import counters, report
from trainer.exactly_once.reader import Position, PositionHook
from trainer.input import window_feed
from trainer.input.dataset import Records
from trainer.lifecycle.stopping import StopHook
from trainer.models import heads
from trainer.models.transforms import Transforms
from trainer.monitoring import divergence, staleness, trace_hook
from trainer.monitoring.progress_hook import ProgressHook
from trainer.monitoring.status_reporter import Reporter
from trainer.optimizers import averaging


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What `tf.estimator.train_and_evaluate` takes, and the evaluation that outlives it."""

    estimator: Any
    train_spec: Any
    eval_spec: Any
    evaluation: Evaluation
    stop: StopHook
    position: Position | None


def build(
    job: config.Config, run: RunFolder, records: Records, task: topology.Task, reporter: Reporter
) -> Experiment:
    """Builds the experiment as the process `task` needs it; no op runs yet."""
    training = task.job_name in topology.TRAINING_ROLES
    position = _position(job, run, records, task) if training else None
    built = estimator(job, run, task, records.transforms, position)
    evaluation = Evaluation(job, run, records, built, reporter)
    stop = StopHook(
        run,
        task,
        max_seconds=job.train.max_seconds,
        writing=reporter.writing,
        patience=tolerance.patience(job.cluster),
    )
    return Experiment(
        built,
        _train_spec(
            job,
            records,
            position,
            [
                # Before the one that saves.
                *([divergence.DivergenceHook(job, run, task, position.blocks)] if position else []),
                stop,
                _progress(job, run, task, reporter),
                *(_savers(job, run, records, position, reporter) if position else []),
                *_instruments(job, run, task, reporter),
            ],
        ),
        # Every checkpoint, at once, and the whole split: the framework's defaults wait two minutes,
        # then ten, and look at 100 batches (docs/tensorflow-pitfalls.md#evaluation-delays).
        tf.estimator.EvalSpec(
            records.eval_input_fn("eval"),
            steps=None,
            name="eval",
            hooks=[SignOfLife(reporter)],
            exporters=[evaluation.judge],
            start_delay_secs=0,
            throttle_secs=job.eval.throttle_seconds,
        ),
        evaluation,
        stop,
        position,
    )


def _position(
    job: config.Config, run: RunFolder, records: Records, task: topology.Task
) -> Position:
    blocks = records.blocks("train")
    return Position(
        job, task, blocks, counters.counts_in(checkpoint_files.newest(run.path), blocks).reached
    )


def estimator(
    job: config.Config,
    run: RunFolder,
    task: topology.Task,
    transforms: Transforms,
    position: Position | None = None,
) -> Any:
    """Returns the Estimator of the config's model in one process; to train it needs a position."""
    running = run_config(job, run, task)
    params = {**model_config.params(job.model), "optimizer": optimizers.updates(job, task)}
    _seed(job)
    found = models.model(job.model.name, params, running, transforms)
    return tf.estimator.Estimator(
        _extended(found, job, task, position), config=running, params=params
    )


def _seed(job: config.Config) -> None:
    """Makes parameters of layers begin alike in every run: Keras draws the seeds of its
    initializers by itself, whatever the seed of the graph."""
    tf.keras.utils.set_random_seed(job.train.seed)


def _extended(
    model: models.Model, job: config.Config, task: topology.Task, position: Position | None
) -> Any:
    """Wraps the `model_fn` of any model: large variables are cut over the parameter servers, each
    step counts its records, and the hooks that train ops have asked for are added to what it
    returns."""
    servers = len(task.cluster.get(topology.PS, ()))
    strategy = topology.STRATEGIES[job.cluster.strategy]
    cuts = servers > 1 and "partition_bytes" in strategy.keys
    cut = placement.partitioner(servers, job.cluster.partition_bytes) if cuts else None
    takes = inspect.signature(model.model_fn).parameters

    def extended(features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
        offered = {"labels": labels, "mode": mode, "params": params, "config": config}
        known = (window_feed.BLOCK, window_feed.RECORD, window_feed.PLACE)
        blocks, records, places = (features.pop(name, None) for name in known)
        counted = position if mode == tf.estimator.ModeKeys.TRAIN else None
        if counted is not None:
            features, labels = counted.let_in((features, labels), blocks, places)
            offered["labels"] = labels
        scope = tf.compat.v1.get_variable_scope()
        _seed(job)
        with tf.compat.v1.variable_scope(scope, partitioner=cut):
            given = {name: offered[name] for name in offered if name in takes}
            spec = model.model_fn(features, **given)
            if (
                mode == tf.estimator.ModeKeys.TRAIN
                and checkpoint_files.newest(config.model_dir) is None
            ):
                warm_start.begin(model.warm_start_from, job.model.warm_start)
            spec = _shaped(spec, mode, job, task)
        if mode == tf.estimator.ModeKeys.TRAIN:
            optimizers.check(job.model.name, params["optimizer"])
        if mode == tf.estimator.ModeKeys.TRAIN and strategy.asynchronous and task.cluster:
            staleness.watch(spec)
        if counted is not None:
            divergence.watch(blocks, records)
            # After the update: what is counted has been applied, or waited for with the others.
            with tf.control_dependencies([spec.train_op]):
                spec = spec._replace(train_op=tf.group(counted.count(blocks, places)))
        saving.keep_known(spec.scaffold)
        hooks = tf.compat.v1.get_collection(optimizers.HOOKS)
        # What stays in a collection is written with every checkpoint, which hooks cannot be.
        for name in (optimizers.HOOKS, optimizers.WITH_UPDATE):
            tf.compat.v1.get_default_graph().clear_collection(name)
        return spec._replace(training_hooks=(*spec.training_hooks, *hooks)) if hooks else spec

    return extended


def _shaped(spec: Any, mode: str, job: config.Config, task: topology.Task) -> Any:
    """Adds what is the same for all models: what is served, and averages of parameters."""
    if mode == tf.estimator.ModeKeys.PREDICT:
        spec = heads.servable(spec)
    decay = job.train.optimizer.average
    if decay is None:
        return spec
    together = topology.STRATEGIES[job.cluster.strategy].synchronous
    return averaging.averaged(spec, mode, decay, updates=task.is_chief or not together)


def run_config(job: config.Config, run: RunFolder, task: topology.Task) -> Any:
    """Returns the `RunConfig` of one process. It reads `TF_CONFIG`, so that is set here."""
    os.environ["TF_CONFIG"] = task.tf_config()
    distribution = strategies.distribution(job.cluster, task)
    return tf.estimator.RunConfig(
        model_dir=run.path,
        tf_random_seed=job.train.seed,
        save_summary_steps=job.train.summary_steps,
        log_step_count_steps=job.train.summary_steps,
        # `saves` does.
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        keep_checkpoint_max=job.train.keep_checkpoints,
        session_config=sessions.session_config(task, distribution.cpu_devices, job.train),
        device_fn=None if distribution.train else placement.device_fn(task),
        train_distribute=distribution.train,
        eval_distribute=distribution.evaluate,
        # Workers wait for the chief, not for a number of seconds
        # (docs/tensorflow-pitfalls.md#worker-start-delay).
        experimental_max_worker_delay_secs=0,
        session_creation_timeout_secs=300,
    )


def _train_spec(
    job: config.Config, records: Records, position: Position | None, hooks: list[Any]
) -> Any:
    if position is None:
        return None
    own = [models.load_attribute(hook, "train.hooks")() for hook in job.train.hooks]
    return tf.estimator.TrainSpec(
        records.train_input_fn(position.feed, position.task.num_readers),
        max_steps=job.train.max_steps,
        hooks=[*([PositionHook(position)] if position.shared else []), *hooks, *own],
    )


def _savers(
    job: config.Config, run: RunFolder, records: Records, position: Position, reporter: Reporter
) -> list[Any]:
    def before_save(session: Any) -> None:
        reporter.progress(run_folder.SAVING)
        position.before_save(session)

    actions = _after_save(job, run, records, reporter)
    actions.append(lambda step, seconds: reporter.progress(run_folder.SAVING, 1, 1))
    return saving.hooks(
        job,
        run,
        position.task,
        actions,
        before_save,
        before_last=position.before_last_save,
        between=[save_pace.SavePace(run.path, job.train.save_steps)],
    )


def _after_save(
    job: config.Config, run: RunFolder, records: Records, reporter: Reporter
) -> list[saving.AfterSave]:
    janitor = Janitor(run.path, job.train.keep_checkpoints)
    return [
        lambda step, seconds: janitor.clean(),
        skipped.Saved(run),
        trace_hook.CheckpointTimes(run.path, reporter),
        report.EpochEnds(run.path, records.blocks("train"), reporter),
    ]


def _instruments(
    job: config.Config, run: RunFolder, task: topology.Task, reporter: Reporter
) -> list[Any]:
    model_dir = run.path if task.is_chief else None
    hooks: list[Any] = [
        trace_hook.TraceHook(run, task.name, reporter, job.train.profile, model_dir)
    ]
    if topology.STRATEGIES[job.cluster.strategy].asynchronous and task.cluster:
        hooks.append(staleness.StalenessHook(run, task, reporter))
    return hooks


def _progress(
    job: config.Config, run: RunFolder, task: topology.Task, reporter: Reporter
) -> ProgressHook:
    examples = topology.batch_per_replica(job) * topology.replicas_per_process(job.cluster)
    return ProgressHook(
        reporter, examples, job.train.summary_steps, run.path if task.is_chief else None
    )
