"""Evaluates a run: while it trains, and at its end.

The framework's evaluator ends only when a checkpoint at `max_steps` turns up, so after any other
end it never does (docs/tensorflow-pitfalls.md#evaluator-never-exits); ours ends when training says
that it is over.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import tensorflow as tf

from pipeline import config, errors, storage
from pipeline.config import model_config
from pipeline.records import epochs
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files, saving, shapes, traces
from trainer.evaluation import (
    baseline,
    best_exporter,
    best_files,
    checkpoint_errors,
    early_stopping,
    skipped,
)
from trainer.evaluation.sign_of_life import SignOfLife
from trainer.exactly_once import report
from trainer.export import exporters, own_exports
from trainer.heads import means
from trainer.input.own_input import OwnInput, Source
from trainer.metrics import one_pass, streaming
from trainer.monitoring.status_reporter import Reporter

# Seconds between looks for a new checkpoint; each takes several requests of gs://.
# While there is none it looks less and less often.
_POLL, _REMOTE_POLL, _GROWTH, _LONGEST = 0.2, 2.0, 1.2, 1.0
# A checkpoint may be deleted while it is read, and NFS may show it late
# (docs/tensorflow-pitfalls.md#checkpoints-deleted-while-read, #late-files-on-nfs).
_ATTEMPTS = 5


class RunEvaluator:
    """The evaluating side of a run: an estimator, the records and where results go."""

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        records: Source,
        *,
        estimator: Any,
        reporter: Reporter,
    ) -> None:
        self._job = job
        self._run = run
        self._records = records
        self._estimator = estimator
        self._reporter = reporter
        # The variables of a checkpoint that the model reads, by mode, once it has been checked.
        self.needed: Mapping[str, Iterable[str]] = {}
        # Copies of what training has left while the best is looked for there, with what they are.
        self._pinned: dict[str, str] = {}
        hooks = [SignOfLife(reporter, "evaluating slices")]
        self._publisher: exporters.Publishing = (
            own_exports.InputFnPublisher(job, run, records, reporter=reporter)
            if isinstance(records, OwnInput)
            else exporters.Publisher(job, run, records, hooks=hooks, reporter=reporter)
        )
        self.best_exporter = best_exporter.BestExporter(
            job, run, records, reporter=reporter, publisher=self._publisher
        )

    def build_hooks(self, split: str) -> list[Any]:
        """Returns the hooks of an evaluation of a split: signs of life, the user's own, and what
        evaluates its slices."""
        own = self._records.eval_hooks if isinstance(self._records, OwnInput) else ()
        undefined = streaming.UndefinedHook(split, self._warn)
        return [SignOfLife(self._reporter), undefined, *own, *self._publisher.build_hooks(split)]

    def _warn(self, line: str) -> None:
        tf.get_logger().warning(line)
        self._reporter.add_note(line)

    def check_model(self) -> None:
        """Raises `UsageError` if the model does not report `eval.metric`, or does not predict what
        exports and slices need.

        Builds the graphs of an evaluation and of an export, but runs nothing: after training it
        would be too late. Of the models here it is known what they report and predict, and the
        graphs of many columns take long to build.
        """
        if isinstance(self._records, OwnInput):
            self._records.check()
        read_eval = self._records.build_eval_input_fn("eval")  # raises if it cannot be evaluated
        if self._records.has("test"):
            self._records.build_eval_input_fn("test")
        if self._is_known():
            return
        with tf.Graph().as_default():
            tf.compat.v1.train.create_global_step()
            batches = read_eval()
            given = tf.compat.v1.data.make_initializable_iterator(batches).get_next()
            mode, config = tf.estimator.ModeKeys.EVAL, self._estimator.config
            spec = self._estimator.model_fn(*given, mode, config)
            evaluated = one_pass.predicts_enough(list(self._job.labels))
            read = saving.list_restored_names(spec)
        reported = {*spec.eval_metric_ops, means.REPORTED} - {means.LOSS}
        best_exporter.check_metric(self._job.eval.metric, reported)
        exported = self._publisher.check_model(self._estimator, evaluated=evaluated)
        if model_config.is_own(self._job.model):
            self.needed = {mode: read, tf.estimator.ModeKeys.PREDICT: exported}

    def _is_known(self) -> bool:
        """Tells if the config alone says that the model reports `eval.metric`, and no slices need
        its predictions."""
        job = self._job
        return (
            not isinstance(self._records, OwnInput)
            and not (job.labels or job.eval.slices or job.eval.group)
            and model_config.is_reported(job.model, job.eval)
        )

    def catch_up(self) -> None:
        """Evaluates the checkpoint that training continues from, if an earlier start has not
        (docs/tensorflow-pitfalls.md#first-save-not-evaluated)."""
        self.settle_best()
        checkpoint = checkpoint_files.find_newest(self._run.path)
        if checkpoint is None or self._read_step(checkpoint) == 0:
            return
        if not self.best_exporter.has_judged(checkpoint):
            found, checkpoint = self.evaluate("eval", checkpoint)
            self.best_exporter.export(self._estimator, "", checkpoint, found, False)

    def settle_best(self) -> None:
        """Removes what a kill has left, and finds the best again if that is not as recorded."""
        checkpoint_files.unpin(self._run.path)
        with contextlib.ExitStack() as stack:
            line = self.best_exporter.settle_best(
                self._estimator,
                self._measure_kept,
                lambda steps: self._pin_judged(stack, steps),
            )
        if self._pinned:
            checkpoint_files.unpin(self._run.path)
            self._pinned.clear()
        if line is not None:
            self._warn(line)

    def _pin_judged(self, stack: contextlib.ExitStack, steps: Set[int] | None) -> list[str]:
        """Returns copies of the checkpoints training has left that have been evaluated, all or
        those of `steps`, the oldest first: training may delete them before all are looked at."""
        for path in checkpoint_files.find_existing(self._run.path).values():
            with contextlib.suppress(FileNotFoundError):  # deleted by training already
                wanted = steps is None or traces.read_step(path) in steps
                if wanted and self.best_exporter.has_judged(path):
                    pinned = checkpoint_files.pin(path, below=path.rpartition("/")[2])
                    self._pinned[stack.enter_context(pinned)] = path
        return list(self._pinned)

    def _measure_kept(self, checkpoint: str) -> dict[str, float]:
        """Returns the metrics of a checkpoint of an earlier start on the eval split. Raises
        `Unusable` if it is damaged, or of another model."""
        told = repr(self._pinned.get(checkpoint, checkpoint))
        what = f"checkpoint {told}"
        self._reporter.report("evaluating")
        if (problem := checkpoint_errors.find_problem(checkpoint, self._reporter)) is not None:
            raise best_files.Unusable(f"{what} is damaged ({problem})")
        try:
            return self.measure("eval", checkpoint)
        except shapes.OtherShapes as error:
            said = str(error).partition(". Change")[0].replace(repr(checkpoint), told)
            raise best_files.Unusable(said) from None
        except (tf.errors.OpError, ValueError) as error:
            if not storage.exists(f"{checkpoint}.index"):  # deleted by training meanwhile
                raise best_files.Unusable(f"{what} is gone") from None
            lacking = checkpoint_files.find_missing_variable(error)
            if lacking is None and "Restoring from checkpoint failed" not in str(error):
                raise
            why = "other shapes" if lacking is None else f"no {lacking}"
            raise best_files.Unusable(f"{what} is of another model: it has {why}") from None

    def follow(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Evaluates each new checkpoint until the final one, then `finish`es.

        Ends when `TRAINING_DONE.json` is there and its checkpoint has been evaluated.
        """
        self.settle_best()
        self._reporter.report("waiting")
        evaluated: checkpoint_errors.Version | None = None
        next_start = 0.0
        first = pause = _REMOTE_POLL if storage.is_remote(self._run.path) else _POLL
        while True:
            # Looked at before the checkpoint: what it names has been written by then.
            done = self._read_end()
            checkpoint = checkpoint_files.find_newest(self._run.path)
            if done is not None:
                self.finish()
                return
            if (
                checkpoint is not None
                and checkpoint_errors.read_version(checkpoint) not in (None, evaluated)
                and time.monotonic() >= next_start
                and self._read_step(checkpoint) > 0
            ):
                next_start = time.monotonic() + self._job.eval.throttle_seconds
                evaluated = self._evaluate_newest(checkpoint)
                pause = first
            else:
                if self._reporter.due:
                    self._reporter.report("waiting")
                sleep(pause)
                pause = max(first, min(_LONGEST, pause * _GROWTH))

    def _read_step(self, checkpoint: str) -> int:
        """Returns the step of a checkpoint, 0 if it is being written again or a newer one has
        replaced it meanwhile. Raises `RetryableError` if it is damaged."""
        version = checkpoint_errors.read_version(checkpoint)
        try:
            return checkpoint_files.read_step(checkpoint)
        except errors.DataError:
            time.sleep(1)  # an index is written in place: until then it looks cut off
            newest = checkpoint_files.find_newest(self._run.path)
            if newest == checkpoint and checkpoint_errors.read_version(checkpoint) == version:
                checkpoint_errors.refuse_damaged(checkpoint, self._reporter)
                raise
            return 0

    def _read_end(self) -> dict[str, Any] | None:
        done = self._run.read(run_folder.TRAINING_DONE)
        if done is None or not done["reason"].startswith(("steps", run_folder.PAUSED)):
            return done
        # One of an earlier start of this run, before it was given more steps.
        # Each chief counts the steps of train.epochs anew.
        wanted = epochs.set_run_length(self._job, self._run).train.max_steps
        return done if done["final_step"] >= wanted else None

    def _evaluate_newest(self, checkpoint: str) -> checkpoint_errors.Version | None:
        """Returns the checkpoint that was evaluated, or `None` if a newer one has replaced it."""
        version = checkpoint_errors.read_version(checkpoint)
        with contextlib.ExitStack() as stack:
            try:
                with self._reporter.count_progress("fetching the checkpoint"):
                    copy = stack.enter_context(checkpoint_files.pin(checkpoint))
            except FileNotFoundError:
                return None
            metrics, evaluated = self.evaluate("eval", copy)
            try:
                self.best_exporter.export(self._estimator, "", evaluated, metrics, False)
            except FileNotFoundError:
                if storage.exists(f"{evaluated}.index"):
                    raise  # another file is missing, such as one of the user's own input
                return None
        return version if evaluated == copy else checkpoint_errors.read_version(evaluated)

    def evaluate(self, split: str, checkpoint: str) -> tuple[dict[str, float], str]:
        """Returns the metrics on a split, and the checkpoint they are of. Raises `RetryableError`
        if it is damaged."""
        for attempt in range(_ATTEMPTS):
            try:
                return self.measure(split, checkpoint), checkpoint
            except checkpoint_errors.UNREADABLE as error:
                newer = checkpoint_files.find_newest(self._run.path)
                if checkpoint_errors.is_of_other(error, checkpoint, newer):
                    raise
                if attempt == _ATTEMPTS - 1:
                    checkpoint_errors.refuse_damaged(checkpoint, self._reporter)
                    raise
                tf.get_logger().warning(
                    "checkpoint %s is gone or unreadable; trying %s", checkpoint, newer
                )
                checkpoint = newer or checkpoint
                time.sleep(1)
        raise AssertionError("unreachable")

    def measure(self, split: str, checkpoint: str) -> dict[str, float]:
        """Returns the metrics of a checkpoint on a split. Raises what TensorFlow does if it cannot
        be read."""
        metrics = self._estimator.evaluate(
            self._records.build_eval_input_fn(split),
            hooks=[shapes.ShapesHook(lambda: checkpoint), *self.build_hooks(split)],
            checkpoint_path=checkpoint,
            name=split,
        )
        self._publisher.keep_results(split, checkpoint)
        return best_exporter.convert_to_floats(metrics)

    def finish(self) -> None:
        """Evaluates the final checkpoint on the eval and test splits and exports it.

        Writes `RESULT.json` last: a run without it has not succeeded.
        """
        checkpoint = checkpoint_files.find_newest(self._run.path)
        if checkpoint is None:
            raise errors.ModelError(f"{self._run.path!r}: training ended without a checkpoint")
        self.settle_best()
        found = self.best_exporter.get_metrics(checkpoint)
        if found is None:
            found, checkpoint = self.evaluate("eval", checkpoint)
            self.best_exporter.export(self._estimator, "", checkpoint, found, True)
        step = int(found["global_step"])
        passed_over = self._report_skipped()
        metrics = {"eval": found}
        if self._records.has("test"):
            metrics["test"], _ = self.evaluate("test", checkpoint)
        self._reporter.report("exporting")
        best = self._run.read(run_folder.BEST)
        if best is None:
            self._warn(
                f"no best export: eval.metric {self._job.eval.metric} was not a finite number in "
                "any evaluation; see why, or choose another eval.metric"
            )
        final = self._publisher.publish(
            self._estimator,
            "final",
            checkpoint,
            step=step,
            metrics=metrics,
            # Written at an earlier end at this step: its digests are those of what is replaced.
            before_replacing=lambda export: self._run.remove(run_folder.RESULT),
            like=self._find_export(best),
        )
        usage = self._read_usage(checkpoint)
        done = self._run.read(run_folder.TRAINING_DONE) or {}
        self._run.write(
            run_folder.RESULT,
            {
                "final_step": step,
                "epochs": self._job.train.epochs if done.get("reason") == "steps" else None,
                "metrics": metrics,
                "baselines": self._compute_baselines(metrics),
                "intervals": self._publisher.compute_intervals(checkpoint, metrics),
                "evaluated": self._count_evaluated(metrics),
                "best": best,
                "exports": {
                    "final": self._run.make_relative(final.path),
                    "best": best["export"] if best else None,
                },
                "sha256": {"final": final.sha256, "best": best.get("sha256", {}) if best else {}},
                **usage,
                "left_out": self._records.left_out,
                "skipped": passed_over,
            },
        )

    def _read_usage(self, checkpoint: str) -> dict[str, Any]:
        """Returns what has been read per epoch, by whom, and the digest of it; nothing of an input
        that is not counted."""
        if isinstance(self._records, OwnInput):
            return {"input": None, "readers": {}, "input_sha256": None}
        read, counts = report.account(checkpoint, self._records.list_blocks("train"))
        return {"input": read.rows, "readers": read.readers, "input_sha256": counts.sha256}

    def _compute_baselines(self, metrics: Mapping[str, Mapping[str, float]]) -> Any:
        """Returns what always the same answer would get, which is known of records only."""
        if isinstance(self._records, OwnInput):
            return {}
        return baseline.compute_metrics(
            self._job, self._records.manifest, self._records.excluded, evaluations=metrics
        )

    def _count_evaluated(self, splits: Iterable[str]) -> dict[str, int]:
        """Returns how many records of each split were evaluated; nothing of an input that is not
        counted."""
        if isinstance(self._records, OwnInput):
            return {}
        return {split: int(self._records.list_blocks(split).due.sum()) for split in splits}

    def _find_export(self, best: Mapping[str, Any] | None) -> exporters.PublishedModel | None:
        if best is None or "sha256" not in best:
            return None
        return exporters.PublishedModel(
            storage.join(self._run.path, best["export"]), best["sha256"]
        )

    def _report_skipped(self) -> list[int]:
        """Returns the steps of checkpoints that were not evaluated, and logs them."""
        found = self._run.read(early_stopping.EVALUATIONS) or {}
        steps: list[int] = found.get("skipped", [])
        if steps:
            line = skipped.describe(steps, len(found["judged"]))
            self._warn(line)
        return steps
