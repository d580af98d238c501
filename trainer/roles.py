"""What each role does from start to end, and which exit code its failures get."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pipeline import config, errors, storage
from pipeline.cluster import gpus, tolerance, topology
from pipeline.config import own_input
from pipeline.launchers.gcp.settings import Gcp
from pipeline.processes import memory, signals
from pipeline.records import builds, in_place, manifest, quarantine, shard_check
from pipeline.runs import evaluator_patience, fatal, run_folder, run_lock
from pipeline.runs.run_folder import RunFolder
from trainer import experiment
from trainer.checkpoints import checkpoint_files, cleanup, repairing, saving
from trainer.distribution import request_numbers, session_manager
from trainer.exactly_once import changed_records
from trainer.experiment import Process
from trainer.input import damaged
from trainer.input.dataset import RecordDataset
from trainer.input.own_input import OwnInput, Source
from trainer.input.script_input import ScriptInput, ScriptSpecs
from trainer.lifecycle import awaiting_result, failures, length, stopping
from trainer.monitoring import divergence, event_files, tf_logging
from trainer.monitoring.status_reporter import Reporter

# Seconds between looks for the chief. A hundred roles may wait for it, so each looks less often the
# longer it waits.
_POLL, _REMOTE_POLL, _GROWTH, _MOST = 0.1, 1.0, 1.1, 1.0


# AutoGraph leaves model functions alone without a strategy; then it should under one, too. There
# it would rewrite the code of Estimator and Keras as well, which took seconds of each start.
@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def run(
    run: RunFolder,
    records_path: str,
    task: topology.Task,
    *,
    reporter: Reporter | None = None,
    script: ScriptSpecs | None = None,
) -> None:
    """Runs `task` to its end; `reporter` is its own if it has reported before. Without records
    input and model may be those of a `script`.

    Raises `PipelineError`s: `ModelError` when the loss is not a number, `StoppedError` when
    asked to stop, `RetryableError` when a peer was lost, `DataError` for records that are not as
    they were made.
    """
    tf_logging.configure_logging()
    job = run.read_config()
    run = dataclasses.replace(run, patience=tolerance.patience(job.cluster))
    if reporter is None:
        reporter = Reporter(run, task.name, job.train.planned_steps, spread=task.spread)
        reporter.keep_alive()
    shown_at = os.environ.get(event_files.VERTEX) if Gcp.of(job).tensorboard else None
    process = Process(job, run, task, reporter, script, records_path)
    with failures.report_failures(reporter), event_files.write_locally(run.path, shown_at):
        if gpus.PROMISED in os.environ:
            gpus.check_promised(os.environ, len(tf.config.list_physical_devices("GPU")))
        if task.cluster:
            _number_requests()
        if task.is_chief:
            records = _open(process)
            _warn(run, records, reporter)
            if isinstance(records, RecordDataset):
                _settle_records(process, records)
                blocks = records.list_blocks("train")
                job = length.decide(job, run, blocks, reporter=reporter)
        # The chief's first word is what the others wait for before they look at checkpoints.
        reporter.report("starting")
        if task.job_name == topology.PS:
            _serve(process)
        if not task.is_chief:
            await_chief(run, ["starting", "training", "evaluating", "done"], reporter)
            records = _open(process)
            job = length.read_decided(job, run)
            reporter.note(max_steps=job.train.max_steps)
        process = dataclasses.replace(process, job=job)
        parts = experiment.build(process, records)
        if checks_model(run, task):
            parts.evaluation.check_model()
        try:
            _work(process, parts)
        except damaged.ERRORS as error:
            if isinstance(records, OwnInput):
                raise
            raise damaged.explain(error, records, run) from error
        reporter.report("done")


def _number_requests() -> None:
    if not request_numbers.make_unique() and sys.platform == "linux":
        tf.get_logger().warning(
            "two requests of this process may get the same number, and a server then refuses the "
            "second: see docs/tensorflow-pitfalls.md#numbers-of-requests"
        )


def checks_model(run: RunFolder, task: topology.Task) -> bool:
    """Tells if this process is to look whether the model reports and predicts what the run needs.

    Who trains alone always does. Of several processes the chief does before there is a checkpoint,
    so that nothing is trained in vain; later the evaluator does, so that a chief that is started
    again steps again sooner.
    """
    if not task.cluster:
        return task.is_chief
    begins = checkpoint_files.find_newest(run.path) is None
    return task.is_chief if begins else task.job_name == topology.EVALUATOR


def _warn(run: RunFolder, records: Source, reporter: Reporter) -> None:
    """Says which records the run does without. Passes over checkpoints that are damaged, or were
    saved after the loss had become no number, and says so too."""
    diverged = storage.exists(storage.join(run.path, divergence.FOLDER))
    progress = _build_counter(reporter, "checking the newest checkpoint")
    repaired = repairing.repair(run.path, finite=diverged, progress=progress)
    for line in (*([repaired] if repaired else []), *quarantine.describe(records.left_out)):
        tf.get_logger().error(line)
        reporter.add_note(line)


def _build_counter(
    reporter: Reporter, what: str, total: int | None = None
) -> Callable[[int], None]:
    """Returns a function that reports numbers of bytes as progress of `what`, of `total` bytes."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        reporter.report_progress(what, done, total)

    return advance


def _open(process: Process) -> Source:
    """Checks the records against their manifest; the chief alone reads them whole for it. Of an
    input of the user's own it is known only that there is such a function."""
    job, run, task, folder = process.job, process.run, process.task, process.records_path
    if process.script is not None:
        return ScriptInput(job, task, process.script)
    if not job.data.has_records:
        return OwnInput(job, task)
    contents = manifest.read(folder)
    manifest.check_schema(contents, job.data, folder)
    records = RecordDataset(job, folder, contents)
    if task.is_chief:
        total = sum(shard.bytes for split in contents.splits.values() for shard in split.shards)
        progress = _build_counter(process.reporter, "checking records", total)
        records.excluded = damaged.exclude_damaged(run, records, progress)
    elif job.data.on_corrupt == "fail":
        shard_check.verify(folder, contents, contents=False)
    else:
        records.excluded = quarantine.read(run)
    return records


def _settle_records(process: Process, records: RecordDataset) -> None:
    """Makes the newest checkpoint one of the records the run is pinned to; if it must not, the run
    is pinned to those before again."""
    run, blocks = process.run, records.list_blocks("train")
    try:
        changed_records.reconcile(process.job, run, blocks, reporter=process.reporter)
    except errors.DataError as error:
        what = _describe_changed_files(run, records)
        builds.restore(run)
        if what:
            raise errors.DataError(f"{what}: {error}") from None
        raise
    builds.forget_previous(run)


def _describe_changed_files(run: RunFolder, records: RecordDataset) -> str:
    """Says which of the user's own files has changed since the build before, if one has."""
    pin = builds.read_pin(run)
    if pin is None or pin.before is None:
        return ""
    try:
        before = manifest.read(storage.join(storage.parent(records.folder), pin.before))
    except errors.DataError:
        return ""
    return in_place.describe_change(before, records.manifest)


def _work(process: Process, parts: experiment.Experiment) -> None:
    if process.task.job_name == topology.EVALUATOR:
        signals.stop_softly()
        _watch_for_stop(process)
        parts.evaluation.follow()
    elif _evaluates(process) and process.run.read(run_folder.TRAINING_DONE) is not None:
        # It was lost after training, when the others had ended.
        _evaluate(process)
    else:
        _train(process, parts)


def _watch_for_stop(process: Process) -> None:
    stopping.Watch(
        process.run,
        process.task,
        process.reporter,
        stop_seconds=process.job.cluster.stop_seconds,
    ).start()


def _serve(process: Process) -> None:
    """Serves variables until training is over: TensorFlow has no way to ask a parameter server to
    stop (docs/tensorflow-pitfalls.md#parameter-servers-never-exit), so it watches for the end
    itself, or the supervisor ends it."""
    task = process.task
    signals.stop_softly()
    server = tf.distribute.Server(
        tf.train.ClusterSpec({role: list(a) for role, a in task.cluster.items()}),
        job_name=task.job_name,
        task_index=task.task_index,
        config=experiment.build_run_config(process.job, process.run, task).session_config,
    )
    process.reporter.report("serving", memory=memory.available())
    _watch_for_stop(process)
    server.join()


def _train(process: Process, parts: experiment.Experiment) -> None:
    job, run, task, reporter = process.job, process.run, process.task, process.reporter
    signals.stop_softly()
    if task.is_chief:
        # Of an earlier start, before the run was given more steps.
        run.remove(run_folder.TRAINING_DONE)
        cleanup.Janitor(run.path, job.train.keep_checkpoints).open()
    elif topology.PS in task.cluster:
        # It has made the variables then: a session does not wait for them as long as that may take.
        await_chief(run, ["training", "done"], reporter)
    _watch_for_stop(process)
    if not task.cluster:
        parts.evaluation.catch_up()
    with _open_sessions(task, parts):
        tf.estimator.train_and_evaluate(parts.estimator, parts.train_spec, parts.eval_spec)
    if not task.is_chief:
        storage.remove(saving.get_own_folder(run.path, task))
    if signals.stop_requested.is_set():
        raise build_stopped_error(run, task, reporter)
    if parts.stop.failure is not None:
        raise parts.stop.failure
    if parts.position is not None and parts.position.ends_with_chief:
        _await_end(process)
    if task.is_chief:
        declare_done(job, run, parts.stop.reason, is_final=parts.stop.is_final)
        if parts.board is not None:
            parts.board.write_end()
        if not task.cluster:
            parts.evaluation.finish()
        elif _evaluates(process):
            _evaluate(process)
        else:
            _outlast(process)


def _await_end(process: Process) -> None:
    """Waits until the chief says that training is over: a session of its that fails ends those of
    the workers as if it were. Raises `RetryableError` if it was not."""

    def is_over(chief: run_folder.Status | None) -> bool:
        if process.run.read(run_folder.TRAINING_DONE) is not None:
            return True
        ended = chief is not None and chief.state in ("stopped", "failed")
        if ended and stopping.get_failure(chief) is None:
            raise errors.RetryableError("the chief ended early. Run the same command to resume.")
        return False

    if not _follow_chief(process.run, process.reporter, is_over):
        raise build_stopped_error(process.run, process.task, process.reporter)


def _evaluates(process: Process) -> bool:
    """Tells if this is a chief that evaluates, as no other process of its cluster does."""
    return process.task.is_chief and process.script is not None and process.script.evaluates


def _evaluate(process: Process) -> None:
    """Evaluates and exports the final checkpoint of a cluster without an evaluator, as it would."""
    task = topology.Task(topology.EVALUATOR, 0, process.task.cluster)
    evaluator = dataclasses.replace(process, task=task)
    records = _open(evaluator)
    experiment.build(evaluator, records).evaluation.finish()


def _outlast(process: Process) -> None:
    """Stays until the run is evaluated, where a job ends with its chief."""
    run, patience = process.run, evaluator_patience.seconds(os.environ)
    if patience is None:
        return
    submission = os.environ.get(fatal.SUBMISSION)
    if awaiting_result.is_written(run, submission, process.reporter, patience=patience):
        return
    process.reporter.add_note(
        f"the evaluator has not reported for {patience:g} s; the chief evaluates instead"
    )
    # One that comes back meanwhile is refused, and tries again.
    with run_lock.hold_role(run, topology.EVALUATOR):
        _evaluate(process)


def _open_sessions(task: topology.Task, parts: experiment.Experiment) -> Any:
    if topology.PS not in task.cluster:
        return contextlib.nullcontext()
    # Records that are counted have a position; an input of the user's own has none.
    position = parts.position
    return session_manager.call_before_sessions(
        None if position is None else position.before_session
    )


def await_chief(run: RunFolder, states: Sequence[str], reporter: Reporter) -> None:
    """Waits until the chief is in one of `states`. Raises its error if it has failed for good.

    The chief's progress counts as this process's: checking the records may take hours.
    """
    if not _follow_chief(run, reporter, lambda chief: chief is not None and chief.state in states):
        raise errors.StoppedError("stopped before training began. Run the same command to resume.")


def _follow_chief(
    run: RunFolder, reporter: Reporter, enough: Callable[[run_folder.Status | None], bool]
) -> bool:
    """Waits until `enough` is true of the chief's status; returns false if asked to stop before."""
    reports, newest = 0, None
    pause = _REMOTE_POLL if storage.is_remote(run.path) else _POLL
    while not signals.stop_requested.is_set():
        chief = run_folder.read_status(run, "chief-0")
        if enough(chief):
            return True
        if chief is not None and chief.time != newest:
            reports, newest = reports + 1, chief.time
            reporter.report_progress("waiting for the chief", reports)
        failure = stopping.get_failure(chief)
        if failure is not None:
            # A launcher ends this process meanwhile, and tells of the chief alone.
            time.sleep(stopping.GRACE_AFTER_FAILURE)
            raise failure
        time.sleep(pause)
        pause = min(pause * _GROWTH, _MOST)
    return False


def build_stopped_error(
    run: RunFolder, task: topology.Task, reporter: Reporter
) -> errors.StoppedError:
    """Returns what a training process says when it was asked to stop. Only the chief knows what is
    saved: a worker may end before it has."""
    if not task.is_chief:
        return errors.StoppedError("stopped; the chief saves. Run the same command to resume.")
    step = checkpoint_files.read_current_step(run.path)
    reporter.note(step=step)
    return errors.StoppedError(f"stopped, saved at step {step}. Run the same command to resume.")


def declare_done(
    job: config.Config, run: RunFolder, reason: str | None, *, is_final: bool = False
) -> None:
    """Says that training is over, unless it made fewer steps than it should without a reason: input
    that ends early looks like success to the framework
    (docs/tensorflow-pitfalls.md#empty-input-counts-as-success)."""
    step = checkpoint_files.read_current_step(run.path)
    if 0 < step < job.train.max_steps and reason is None and own_input.is_of_script(job):
        reason = "the input of the script ended"  # as train_and_evaluate may end
    if step < job.train.max_steps and reason is None and not job.data.has_records:
        raise errors.DataError(
            f"data.input_fn {job.data.input_fn!r}: its examples ended at step {step} of "
            f"{job.train.max_steps}; repeat() them in mode 'train', or train less"
        )
    if step < job.train.max_steps and reason is None:
        raise errors.ModelError(
            f"training ended unexpectedly at step {step} of {job.train.max_steps}"
        )
    if reason == run_folder.STOP_REQUESTED and step >= job.train.max_steps:
        reason = None  # there was nothing left to stop
    if reason is None and job.train.pauses_at(step):
        reason = f"{run_folder.PAUSED} at step {step}"
    done = {"final_step": step, "reason": reason or "steps"}
    run.write(run_folder.TRAINING_DONE, {**done, "final": True} if is_final else done)
