"""The trainer's centre: an Estimator with what it trains on and how it is evaluated."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from pipeline import config
from pipeline.cluster import tolerance, topology
from pipeline.config import model_config, strategy_table
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer import model_function, models, optimizers
from trainer.checkpoints import checkpoint_files, save_pace, saving, shapes
from trainer.checkpoints.cleanup import Janitor
from trainer.distribution import placement, sessions, strategies
from trainer.evaluation import skipped
from trainer.evaluation.evaluator import RunEvaluator
from trainer.exactly_once import epoch_ends, saved_counts
from trainer.exactly_once.reader import Position, PositionHook
from trainer.features.transforms import Transforms
from trainer.heads import heads, mean_loss
from trainer.input.own_input import OwnInput, Source
from trainer.input.script_input import ScriptSpecs
from trainer.lifecycle import variables_hook
from trainer.lifecycle.stopping import StopHook
from trainer.monitoring import (
    continued_hook,
    divergence,
    finite_loss,
    staleness,
    stopwatch_hook,
    trace_hook,
)
from trainer.monitoring.board import BoardHook
from trainer.monitoring.peers import Peers
from trainer.monitoring.progress_hook import ProgressHook
from trainer.monitoring.status_reporter import Reporter


@dataclasses.dataclass(frozen=True)
class Process:
    """A process of a run: its job and run, which task of the cluster it is, and its reports. Input
    and model may be those of a script; otherwise the records are at `records_path`."""

    job: config.Config
    run: RunFolder
    task: topology.Task
    reporter: Reporter
    script: ScriptSpecs | None = None
    records_path: str = ""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What `tf.estimator.train_and_evaluate` takes, and the evaluation that outlives it."""

    estimator: Any
    train_spec: Any
    eval_spec: Any
    evaluation: RunEvaluator
    stop: StopHook
    position: Position | None
    board: BoardHook | None


def build(process: Process, records: Source) -> Experiment:
    """Builds the experiment as `process` needs it; no op runs yet."""
    job, run, task, reporter = process.job, process.run, process.task, process.reporter
    training = task.job_name in topology.TRAINING_ROLES
    position = _build_position(process, records) if training else None
    built = build_estimator(
        job, run, task, transforms=records.transforms, position=position, script=process.script
    )
    evaluation = RunEvaluator(job, run, records, estimator=built, reporter=reporter)
    stop = StopHook(
        run,
        task,
        max_seconds=job.train.max_seconds,
        writing=reporter.writing,
        patience=tolerance.patience(job.cluster),
    )
    board = BoardHook(job, run) if task.is_chief else None
    return Experiment(
        built,
        _build_train_spec(
            process,
            records,
            position,
            hooks=[
                *_build_clocks(process),  # first: what other hooks do is between steps
                continued_hook.ContinuedHook(reporter),
                *_build_position_hooks(position, reporter),
                _build_finite_hook(process, position),  # before the one that saves
                stop,
                _build_progress_hook(process),
                *_build_savers(process, records, position),
                *_build_instruments(process, lambda: evaluation.needed),
                *([board] if board else []),
            ],
        )
        if training
        else None,
        # Every checkpoint, at once, and the whole split: the framework's defaults wait two minutes,
        # then ten, and look at 100 batches (docs/tensorflow-pitfalls.md#evaluation-delays).
        tf.estimator.EvalSpec(
            _build_eval_input_fn(records, reporter),
            steps=None,
            name="eval",
            hooks=evaluation.build_hooks("eval"),
            exporters=[evaluation.best_exporter],
            start_delay_secs=0,
            throttle_secs=job.eval.throttle_seconds,
        ),
        evaluation,
        stop,
        position,
        board,
    )


def _build_eval_input_fn(records: Source, reporter: Reporter) -> Any:
    """Returns the input of an evaluation. With it the time of one begins, which builds a graph."""
    batches = records.build_eval_input_fn("eval")

    def input_fn() -> Any:
        reporter.watch.enter("evaluation")
        return batches()

    return input_fn


def _build_position(process: Process, records: Source) -> Position | None:
    if isinstance(records, OwnInput):
        return None
    blocks = records.list_blocks("train")
    counts = saved_counts.read_counts(checkpoint_files.find_newest(process.run.path), blocks)
    return Position(process.job, process.task, blocks, reached=counts.reached)


def build_estimator(
    job: config.Config,
    run: RunFolder,
    task: topology.Task,
    *,
    transforms: Transforms | None,
    position: Position | None = None,
    script: ScriptSpecs | None = None,
) -> Any:
    """Returns the Estimator of the config's model, or of a script's, in one process; to train on
    records it needs a position."""
    running = build_run_config(job, run, task, script=script)
    params = {**model_config.params(job.model), "optimizer": optimizers.updates(job, task)}
    if (shipped := model_config.find_shipped_settings(job.model)) is not None:
        params |= shipped.other_params(job)
    if transforms is not None:
        params |= heads.collect_params(transforms.plan)
    model_function.seed(job)  # what the model's function makes before the graph
    own = script.model if script else None
    model = own or models.build_model(job.model.name, params, running, transforms=transforms)
    extended = model_function.ModelFunction(
        model,
        job,
        task,
        position=position,
        packing=None if transforms is None else transforms.packing,
        planned=() if transforms is None else transforms.plan.features,
    )
    return mean_loss.Estimator(extended, config=running, params=params)


def build_run_config(
    job: config.Config, run: RunFolder, task: topology.Task, *, script: ScriptSpecs | None = None
) -> Any:
    """Returns the `RunConfig` of one process. It reads `TF_CONFIG`, so that is set here."""
    os.environ["TF_CONFIG"] = task.tf_config()
    distribution = strategies.build_distribution(
        job.cluster, task, script.strategy if script else None
    )
    return tf.estimator.RunConfig(
        model_dir=run.path,
        tf_random_seed=job.train.seed,
        save_summary_steps=job.train.summary_steps,
        log_step_count_steps=job.train.summary_steps,
        # `saves` does.
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        keep_checkpoint_max=job.train.keep_checkpoints,
        session_config=sessions.build_session_config(
            task, distribution.cpu_devices, job.train, columns=len(job.data.columns)
        ),
        device_fn=None if distribution.train else placement.build_device_fn(task),
        train_distribute=distribution.train,
        eval_distribute=distribution.evaluate,
        # Workers wait for the chief, not for a number of seconds
        # (docs/tensorflow-pitfalls.md#worker-start-delay).
        experimental_max_worker_delay_secs=0,
        session_creation_timeout_secs=300,
    )


def _build_train_spec(
    process: Process, records: Source, position: Position | None, *, hooks: list[Any]
) -> Any:
    job, script = process.job, process.script
    own = [models.load_attribute(hook, "train.hooks")() for hook in job.train.hooks]
    own += script.train_spec.hooks or () if script else ()
    return tf.estimator.TrainSpec(
        _build_train_input_fn(process, records, position),
        max_steps=job.train.max_steps,
        hooks=[*hooks, *own],
    )


def _build_position_hooks(position: Position | None, reporter: Reporter) -> list[Any]:
    if position is None or not position.shared:
        return []
    return [
        PositionHook(
            position, reporter.report_progress, lambda: reporter.watch.time_state("waiting")
        )
    ]


def _build_train_input_fn(process: Process, records: Source, position: Position | None) -> Any:
    # Of processes that wait for each other it is told by when batches were ready whose are late.
    together = strategy_table.STRATEGIES[process.job.cluster.strategy].synchronous
    timed = together and process.task.num_readers > 1
    if isinstance(records, OwnInput):
        return records.build_train_input_fn(timed=timed)
    assert position is not None
    return records.build_train_input_fn(position.feed, position.task.num_readers, timed=timed)


def _build_finite_hook(process: Process, position: Position | None) -> Any:
    if position is None:
        return finite_loss.FiniteLoss()
    return divergence.DivergenceHook(process.job, process.run, process.task, blocks=position.blocks)


def _build_savers(process: Process, records: Source, position: Position | None) -> list[Any]:
    job, run, reporter = process.job, process.run, process.reporter
    before = reporter.watch.state

    def before_save(session: Any) -> None:
        nonlocal before
        before = reporter.watch.pause("saving")
        reporter.report_progress(run_folder.SAVING)
        if position is not None:
            position.before_save(session)

    def finish_save(step: int, seconds: float) -> None:
        if position is not None:
            position.after_save()
        reporter.watch.resume(before)

    actions = _build_after_save(process, records)
    actions.append(lambda step, seconds: reporter.report_progress(run_folder.SAVING, 1, 1))
    return saving.build_hooks(
        job,
        run,
        process.task,
        actions=actions,
        before_save=before_save,
        before_last=position.before_last_save if position else lambda session: None,
        listeners=_list_listeners(process.script),
        between=[save_pace.SavePace(run.path, job.train.save_steps), finish_save],
    )


def _list_listeners(script: ScriptSpecs | None) -> tuple[Any, ...]:
    """Returns the saving listeners of a script."""
    return tuple(script.train_spec.saving_listeners or ()) if script else ()


def _build_after_save(process: Process, records: Source) -> list[saving.AfterSave]:
    job, run, reporter = process.job, process.run, process.reporter
    janitor = Janitor(run.path, job.train.keep_checkpoints)
    counted = (
        []
        if isinstance(records, OwnInput)
        else [
            epoch_ends.EpochEnds(
                run.path, records.list_blocks("train"), reporter, cluster=job.cluster
            )
        ]
    )
    return [
        lambda step, seconds: janitor.clean(),
        skipped.Saved(run),
        trace_hook.CheckpointTimes(run.path, reporter),
        *counted,
    ]


def _build_clocks(process: Process) -> list[Any]:
    job, run, task, reporter = process.job, process.run, process.task, process.reporter
    return [
        stopwatch_hook.StopwatchHook(reporter.watch, topology.examples_per_process(job)),
        trace_hook.TraceHook(
            run,
            task.name,
            reporter,
            profile=job.train.profile,
            model_dir=run.path if task.is_chief else None,
        ),
    ]


def _build_instruments(
    process: Process, needed: Callable[[], Mapping[str, Iterable[str]]]
) -> list[Any]:
    task, run, reporter = process.task, process.run, process.reporter
    found: list[Any] = []
    if task.is_chief:
        how = process.job.train.optimizer.name
        found.append(shapes.ShapesHook(lambda: checkpoint_files.find_newest(run.path)))
        found.append(variables_hook.VariablesHook(run, task, reporter, how=how, needed=needed))
    if strategy_table.STRATEGIES[process.job.cluster.strategy].asynchronous and task.cluster:
        found.append(staleness.StalenessHook(run, task, reporter))
    return found


def _build_progress_hook(process: Process) -> ProgressHook:
    job, run, task = process.job, process.run, process.task
    return ProgressHook(
        process.reporter,
        topology.examples_per_process(job),
        job.train.summary_steps,
        model_dir=run.path if task.is_chief else None,
        peers=Peers(run, task) if task.is_chief else None,
    )
