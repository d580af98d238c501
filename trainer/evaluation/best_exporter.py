"""Whether an evaluation is the best so far, and whether training should stop.

`tf.estimator.BestExporter` forgets its best at every restart and lets a worse model replace it
(docs/tensorflow-pitfalls.md#bestexporter); here the best is a file, `best.json`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from pipeline import config, errors, storage
from pipeline.models.base import SUCCESSORS
from pipeline.runs import export_files, run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files
from trainer.evaluation import best, early_stopping, skipped
from trainer.export import exporters
from trainer.input.own_input import Source
from trainer.monitoring.status_reporter import Reporter

# Holds the checkpoint of the best, which training would delete when it has saved others.
_KEPT = "best"
# A model that fails with these is no longer to be the best; after any other error it still is.
_REFUSED = (errors.ModelError, errors.DataError, errors.UsageError, FileNotFoundError)


class BestExporter(tf.estimator.Exporter):
    """Looks at every evaluation: reports it, and exports the model if it is the best so far.

    It is an `Exporter`, so `train_and_evaluate` calls it in a single process; the evaluator of a
    cluster calls it itself.
    """

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        records: Source,
        *,
        reporter: Reporter,
        publisher: exporters.Publishing,
    ) -> None:
        self._job = job
        self._records = records
        self._publisher = publisher
        self._run = run
        self._reporter = reporter
        self._newest: tuple[str, dict[str, float]] | None = None

    @property
    def name(self) -> str:
        """The folder `train_and_evaluate` offers below `export/`."""
        return "best"

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | None:
        """Exports and keeps `checkpoint_path` if its metric beats the recorded best; returns the
        path of the export."""
        self._publisher.keep_results("eval", checkpoint_path)
        exported = self._take(estimator, checkpoint_path, convert_to_floats(eval_result))
        # What comes until the next step is no longer the evaluation.
        self._reporter.watch.enter("between")
        return exported

    def _take(self, estimator: Any, checkpoint_path: str, metrics: dict[str, float]) -> str | None:
        self._newest = checkpoint_files.compute_digest(checkpoint_path), metrics
        step = int(metrics["global_step"])
        self._reporter.report("evaluating", step=step, evaluation={"step": step, **metrics})
        metric = self._job.eval.metric
        check_metric(metric, metrics)
        old = self._read_best(estimator)
        # An export that was removed does not count; one by another metric, or on other records,
        # cannot be compared.
        there = (
            old
            and old.get("metric") == metric
            and old.get("meaning") == best.describe_metric(metric)
            and old.get("records") == self._evaluated_on
            and export_files.is_published(storage.join(self._run.path, old["export"]))
        )
        reference = float(old["value"]) if old and there else None
        better = best.is_better(
            metrics[metric], reference, higher_is_better=self._job.eval.higher_is_better
        )
        if not better:
            self._note(metrics, checkpoint_path)
            return None
        # Evaluating has its own limit of silence.
        self._reporter.report("exporting")
        new = self._describe(checkpoint_path, metrics)
        # Before anybody hears of the evaluation: a kill must not lose the best that is known.
        self._announce(old, {**new, "metrics": metrics, "index": self._newest[0]})
        self._note(metrics, checkpoint_path)
        try:
            with self._reporter.count_progress("copying the checkpoint"):
                kept = checkpoint_files.keep(checkpoint_path, self._kept)
            new["checkpoint"] = self._run.make_relative(kept)
            path = self.publish(estimator, checkpoint_path, metrics, old=old, new=new)
        except _REFUSED:
            self._restore(old)
            raise
        self._reporter.report("evaluating")
        return path

    def _describe(self, checkpoint: str, metrics: dict[str, float]) -> dict[str, Any]:
        """Returns the record of a new best, which is not kept yet."""
        metric = self._job.eval.metric
        intervals = self._publisher.compute_intervals(checkpoint, {"eval": metrics})["eval"]
        meaning = best.describe_metric(metric)
        return {
            "step": int(metrics["global_step"]),
            "metric": metric,
            "value": metrics[metric],
            "records": self._evaluated_on,
            "checkpoint": checkpoint.rpartition("/")[2],
            "interval": intervals[metric],
            **({} if meaning is None else {"meaning": meaning}),
        }

    def _announce(self, old: dict[str, Any] | None, pending: dict[str, Any]) -> None:
        self._run.write(run_folder.BEST, {**(old or {}), "replacement": pending})

    def _restore(self, old: dict[str, Any] | None) -> None:
        """Records that nothing is to replace the best so far."""
        if old:
            self._run.write(run_folder.BEST, old)
        else:
            self._run.remove(run_folder.BEST)

    def get_metrics(self, checkpoint: str) -> dict[str, float] | None:
        """Returns the metrics of `checkpoint` if it is the newest that was looked at."""
        if self._newest is None or self._newest[0] != checkpoint_files.compute_digest(checkpoint):
            return None
        return self._newest[1]

    def _read_best(self, estimator: Any) -> dict[str, Any] | None:
        """Returns the record of the best so far. Finishes a replacement first that a kill has
        interrupted: either model may be the one that is there."""
        old = self._run.read(run_folder.BEST)
        pending = (old or {}).pop("replacement", None)
        if pending is None:
            return old
        self._reporter.report("exporting")
        kept = self._keep_pending(pending)
        if kept is None:
            self._restore(old)
            return old or None
        metrics, _ = pending.pop("metrics"), pending.pop("index", None)
        pending["checkpoint"] = self._run.make_relative(kept)
        try:
            self.publish(estimator, kept, metrics, old=old, new=pending)
        except _REFUSED:
            self._restore(old)
            raise
        return self._run.read(run_folder.BEST)

    def _keep_pending(self, pending: dict[str, Any]) -> str | None:
        """Returns where the checkpoint of a replacement is kept; `None` if it has been deleted."""
        name, index = pending["checkpoint"].rpartition("/")[2], pending.get("index")
        below = [storage.join(self._kept, index[:12])] if index else []
        places = (storage.join(place, name) for place in (self._run.path, self._kept, *below))
        announced = storage.join(self._run.path, pending["checkpoint"])
        for path in dict.fromkeys([announced, *places]):
            with contextlib.suppress(FileNotFoundError):
                if index in (None, checkpoint_files.compute_digest(path)):
                    is_kept = path.startswith(f"{self._kept}/")
                    return path if is_kept else checkpoint_files.keep(path, self._kept)
        return None

    def publish(
        self,
        estimator: Any,
        checkpoint: str,
        metrics: dict[str, float],
        *,
        old: dict[str, Any] | None,
        new: dict[str, Any],
    ) -> str:
        """Exports `checkpoint` as the best, and records it: `new` in place of `old`."""

        def build_record(export: exporters.PublishedModel) -> dict[str, Any]:
            return {**new, "export": self._run.make_relative(export.path), "sha256": export.sha256}

        def announce(export: exporters.PublishedModel) -> None:
            self._announce(old, {**build_record(export), "metrics": metrics})

        export = self._publisher.publish(
            estimator,
            "best",
            checkpoint,
            step=new["step"],
            metrics={"eval": metrics},
            before_replacing=announce,
        )
        self._run.write(run_folder.BEST, build_record(export))
        checkpoint_files.keep_only(storage.join(self._run.path, new["checkpoint"]), self._kept)
        folder = storage.parent(export.path)
        for name in storage.listdir(folder):
            if (path := storage.join(folder, name)) != export.path:
                storage.remove(path)
        return export.path

    @property
    def _kept(self) -> str:
        return storage.join(self._run.path, _KEPT)

    @functools.cached_property
    def _evaluated_on(self) -> str:
        return self._records.identify("eval")

    @functools.cached_property
    def _settings(self) -> str:
        return early_stopping.describe_settings(
            self._job, [self._records.identify("train"), self._evaluated_on]
        )

    def _note(self, metrics: dict[str, float], checkpoint: str) -> None:
        """Adds to the list of evaluations, and asks for the end of training if it is time.

        A second evaluation of a step, as after a restart, replaces the first.
        """
        content = self._run.read(early_stopping.EVALUATIONS) or {}
        known = content.get("evaluations", [])
        evaluated = sorted({*content.get("judged", []), int(checkpoint.rpartition("-")[2])})
        others = [m for m in known if m["global_step"] != metrics["global_step"]]
        noted = {**metrics, "settings": self._settings}
        every = sorted([*others, noted], key=lambda m: float(m["global_step"]))
        evaluations = early_stopping.limit_history(every, self._job.eval, self._settings)
        self._run.write(
            early_stopping.EVALUATIONS,
            {
                "evaluations": evaluations,
                "judged": evaluated,
                "skipped": skipped.list_steps(self._run, evaluated),
            },
        )
        alike = early_stopping.filter_by_settings(evaluations, self._settings)
        reason = early_stopping.find_reason_to_stop(alike, self._job.eval)
        if reason is not None:
            self._run.write(run_folder.STOP, {"reason": reason, "final": True})


def check_metric(metric: str, reported: Iterable[str]) -> None:
    """Raises `UsageError` if the model does not report `eval.metric`."""
    known = sorted(set(reported) - {"global_step"})
    if metric not in known:
        label, slash, name = metric.rpartition("/")
        named = f"{label}{slash}{SUCCESSORS.get(name, name)}"
        hint = f" (did you mean {named!r}?)" if named in known else errors.suggest(metric, known)
        raise errors.UsageError(
            f"eval.metric {metric!r}: the model reports {', '.join(known)}{hint}"
        )


def convert_to_floats(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns metrics as Python numbers, which JSON can hold."""
    return {name: float(value) for name, value in metrics.items()}
