"""The trainer's centre: an Estimator with what it trains on and how it is judged."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import tensorflow as tf

from pipeline import config
from pipeline.cluster import tolerance, topology
from pipeline.config import model_config
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer import model_function, models, optimizers
from trainer.checkpoints import checkpoint_files, save_pace, saving
from trainer.checkpoints.cleanup import Janitor
from trainer.distribution import placement, sessions, strategies
from trainer.evaluation import skipped
from trainer.evaluation.evaluator import Evaluation, SignOfLife
from trainer.exactly_once import counters, report
from trainer.exactly_once.reader import Position, PositionHook
from trainer.input.own_input import OwnInput, Source
from trainer.lifecycle.stopping import StopHook
from trainer.models import heads
from trainer.models.transforms import Transforms
from trainer.monitoring import divergence, finite_loss, staleness, trace_hook
from trainer.monitoring.progress_hook import ProgressHook
from trainer.monitoring.status_reporter import Reporter


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
    job: config.Config, run: RunFolder, records: Source, task: topology.Task, reporter: Reporter
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
            reporter,
            [
                _finite(job, run, task, position),  # before the one that saves
                stop,
                _progress(job, run, task, reporter),
                *_savers(job, run, records, task, position=position, reporter=reporter),
                *_instruments(job, run, task, reporter),
            ],
        )
        if training
        else None,
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
    job: config.Config, run: RunFolder, records: Source, task: topology.Task
) -> Position | None:
    if isinstance(records, OwnInput):
        return None
    blocks = records.blocks("train")
    return Position(
        job, task, blocks, counters.counts_in(checkpoint_files.newest(run.path), blocks).reached
    )


def estimator(
    job: config.Config,
    run: RunFolder,
    task: topology.Task,
    transforms: Transforms | None,
    position: Position | None = None,
) -> Any:
    """Returns the Estimator of the config's model in one process; to train it needs a position."""
    running = run_config(job, run, task)
    params = {**model_config.params(job.model), "optimizer": optimizers.updates(job, task)}
    if transforms is not None:
        params |= heads.told(transforms.plan)
    model_function.seed(job)  # what the model's function makes before the graph
    model = models.model(job.model.name, params, running, transforms)
    extended = model_function.ModelFunction(model, job, task, position)
    return tf.estimator.Estimator(extended, config=running, params=params)


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
    job: config.Config,
    records: Source,
    position: Position | None,
    reporter: Reporter,
    hooks: list[Any],
) -> Any:
    own = [models.load_attribute(hook, "train.hooks")() for hook in job.train.hooks]
    return tf.estimator.TrainSpec(
        _train_input_fn(records, position),
        max_steps=job.train.max_steps,
        hooks=[
            *([PositionHook(position, reporter.progress)] if position and position.shared else []),
            *hooks,
            *own,
        ],
    )


def _train_input_fn(records: Source, position: Position | None) -> Any:
    if isinstance(records, OwnInput):
        return records.train_input_fn()
    assert position is not None
    return records.train_input_fn(position.feed, position.task.num_readers)


def _finite(
    job: config.Config, run: RunFolder, task: topology.Task, position: Position | None
) -> Any:
    if position is None:
        return finite_loss.FiniteLoss()
    return divergence.DivergenceHook(job, run, task, position.blocks)


def _savers(
    job: config.Config,
    run: RunFolder,
    records: Source,
    task: topology.Task,
    *,
    position: Position | None,
    reporter: Reporter,
) -> list[Any]:
    def before_save(session: Any) -> None:
        reporter.progress(run_folder.SAVING)
        if position is not None:
            position.before_save(session)

    actions = _after_save(job, run, records, reporter)
    actions.append(lambda step, seconds: reporter.progress(run_folder.SAVING, 1, 1))
    return saving.hooks(
        job,
        run,
        task,
        actions,
        before_save,
        before_last=position.before_last_save if position else lambda session: None,
        between=[save_pace.SavePace(run.path, job.train.save_steps)],
    )


def _after_save(
    job: config.Config, run: RunFolder, records: Source, reporter: Reporter
) -> list[saving.AfterSave]:
    janitor = Janitor(run.path, job.train.keep_checkpoints)
    return [
        lambda step, seconds: janitor.clean(),
        skipped.Saved(run),
        trace_hook.CheckpointTimes(run.path, reporter),
        *(
            []
            if isinstance(records, OwnInput)
            else [report.EpochEnds(run.path, records.blocks("train"), reporter)]
        ),
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
