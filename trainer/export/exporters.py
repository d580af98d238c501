"""What is published of a run: the best and the final model, as SavedModels.

`tf.estimator.BestExporter` forgets its best at every restart and lets a worse model replace it
(traps A13); here the best is a file, `best.json`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from pipeline import config, errors, storage
from pipeline.config import config_file
from pipeline.records import quarantine
from pipeline.runs import export_files, exported, run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json
from trainer.checkpoints import checkpoint_files
from trainer.evaluation import best, early_stopping, skipped
from trainer.export import model_card, parity, parity_worker
from trainer.input import parsing
from trainer.input.dataset import Records
from trainer.metrics import slice_metrics
from trainer.models import heads
from trainer.models.transforms import Transforms
from trainer.monitoring.status_reporter import Reporter

BEST = exported.BEST
_STAGING = ".staging-"
_quiet = contextlib.nullcontext()
# Holds the checkpoint of the best, which training would delete when it has saved others.
_KEPT = "best"


class Judge(tf.estimator.Exporter):
    """Looks at every evaluation: reports it, and exports the model if it is the best so far.

    It is an `Exporter`, so `train_and_evaluate` calls it in a single process; the evaluator of a
    cluster calls it itself.
    """

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        records: Records,
        reporter: Reporter,
        publisher: Publisher,
    ) -> None:
        self._job = job
        self._records = records
        self._publisher = publisher
        self._run = run
        self._reporter = reporter

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
        metrics = plain(eval_result)
        step = int(metrics["global_step"])
        self._reporter.say("evaluating", step=step, evaluation={"step": step, **metrics})
        metric = self._job.eval.metric
        check_metric(metric, metrics)
        self._note(metrics, checkpoint_path)
        old = self._recorded(estimator)
        # One that somebody has removed is none, and one by another metric, or on other records,
        # cannot be compared.
        there = (
            old
            and old["metric"] == metric
            and old.get("records") == self._evaluated_on
            and export_files.is_published(storage.join(self._run.path, old["export"]))
        )
        reference = float(old["value"]) if old and there else None
        if not best.is_better(metrics[metric], reference, self._job.eval.higher_is_better):
            return None
        # Evaluating has its own limit of silence.
        self._reporter.say("exporting")
        with self._reporter.counting("copying the checkpoint"):
            kept = checkpoint_files.keep(checkpoint_path, storage.join(self._run.path, _KEPT))
        new = {
            "step": step,
            "metric": metric,
            "value": metrics[metric],
            "records": self._evaluated_on,
            "checkpoint": self._run.relative(kept),
        }
        path = self._publish(estimator, checkpoint_path, metrics, old, new)
        self._reporter.say("evaluating")
        return path

    def _recorded(self, estimator: Any) -> dict[str, Any] | None:
        """Returns the record of the best so far. Finishes a replacement first that a kill has
        interrupted: either model may be the one that is there."""
        old = self._run.read(BEST)
        pending = (old or {}).get("replacement")
        if pending is None:
            return old
        kept = storage.join(self._run.path, pending["checkpoint"])
        self._reporter.say("exporting")
        if storage.exists(f"{kept}.index"):
            self._publish(estimator, kept, pending.pop("metrics"), old, pending)
            return self._run.read(BEST)
        return old if old and "export" in old else None

    def _publish(
        self,
        estimator: Any,
        checkpoint: str,
        metrics: dict[str, float],
        old: dict[str, Any] | None,
        new: dict[str, Any],
    ) -> str:
        """Exports `checkpoint` as the best, and records it: `new` in place of `old`."""

        def record(export: Export) -> dict[str, Any]:
            return {**new, "export": self._run.relative(export.path), "sha256": export.sha256}

        def announce(export: Export) -> None:
            pending = {**record(export), "metrics": metrics}
            self._run.write(BEST, {**(old or {}), "replacement": pending})

        export = self._publisher.publish(
            estimator, "best", checkpoint, new["step"], {"eval": metrics}, announce
        )
        self._run.write(BEST, record(export))
        folder = storage.join(self._run.path, _KEPT)
        checkpoint_files.keep_only(storage.join(self._run.path, new["checkpoint"]), folder)
        # Its own, wherever the run was when it was written.
        step = {**new, **(old or {})}["step"]
        previous = storage.join(storage.parent(export.path), str(step))
        if previous != export.path:
            storage.remove(previous)
        return export.path

    @functools.cached_property
    def _evaluated_on(self) -> str:
        return self._records.identity("eval")

    @functools.cached_property
    def _settings(self) -> str:
        return early_stopping.settings(
            self._job, [self._records.identity("train"), self._evaluated_on]
        )

    def _note(self, metrics: dict[str, float], checkpoint: str) -> None:
        """Adds to the list of evaluations, and asks for the end of training if it is time.

        The same step judged again replaces what was said of it: after a restart it may be.
        """
        content = self._run.read(early_stopping.EVALUATIONS) or {}
        known = content.get("evaluations", [])
        judged = sorted({*content.get("judged", []), int(checkpoint.rpartition("-")[2])})
        others = [m for m in known if m["global_step"] != metrics["global_step"]]
        noted = {**metrics, "settings": self._settings}
        every = sorted([*others, noted], key=lambda m: float(m["global_step"]))
        evaluations = early_stopping.bounded(every, self._job.eval, self._settings)
        self._run.write(
            early_stopping.EVALUATIONS,
            {
                "evaluations": evaluations,
                "judged": judged,
                "skipped": skipped.steps(self._run, judged),
            },
        )
        alike = early_stopping.made_under(evaluations, self._settings)
        reason = early_stopping.reason_to_stop(alike, self._job.eval)
        if reason is not None:
            self._run.write(run_folder.STOP, {"reason": reason})


class Publisher:
    """Exports models of one run, and publishes those that answer as the Estimator does."""

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        records: Records,
        hooks: Sequence[Any] = (),
        reporter: Reporter | None = None,
    ) -> None:
        """`hooks` are called while slices are evaluated. The `reporter` is told how far it is."""
        self._job, self._run, self._records, self._hooks = job, run, records, hooks
        self._reporter = reporter
        self._gate = parity.Gate(records)

    def publish(
        self,
        estimator: Any,
        kind: str,
        checkpoint: str,
        step: int,
        metrics: model_card.Metrics,
        before_replacing: Callable[[Export], None] = lambda export: None,
    ) -> Export:
        """Exports a checkpoint to `export/<kind>/<step>`, with its `metrics` by split.

        The folder appears whole: the model is written and checked in another one, and then
        published. An export of the same checkpoint, config and records is left as it is; any other
        of that step is replaced, after `before_replacing` was called with the new one. Raises
        `ModelError` if it fails the check.
        """
        target = storage.join(self._run.exports, kind, str(step))
        made_from = self._made_from(checkpoint)
        if export_files.is_published(target) and _is_made_from(target, made_from):
            return Export(target, self._digests(target))
        for left in storage.listdir(self._run.exports):
            if left.startswith(_STAGING):  # by a process that was killed
                storage.remove(storage.join(self._run.exports, left))
        beside = staging(self._run.exports)
        try:
            receiver = serving_input_fn(self._records.transforms)
            with self._reporter.watching("writing the model", beside) if self._reporter else _quiet:
                written = estimator.export_saved_model(beside, receiver, checkpoint_path=checkpoint)
            folder = written.decode()
            _name_signatures(folder)
            with self._counting("checking the exported model"):
                self._gate.check(estimator, checkpoint, folder)
            slices = {split: self._slices(estimator, checkpoint, split) for split in metrics}
            self._add_extras(folder, step, metrics, slices, made_from)
            found = Export(target, self._digests(folder))
            with self._counting("publishing the model"):
                if storage.exists(target):
                    before_replacing(found)
                    storage.replace_folder(folder, target, last=export_files.LAST)
                else:
                    storage.publish_folder(folder, target, last=export_files.LAST)
        finally:
            storage.remove(beside)
        return found

    def _counting(self, what: str) -> contextlib.AbstractContextManager[None]:
        return self._reporter.counting(what) if self._reporter else _quiet

    def _digests(self, folder: str) -> dict[str, str]:
        with self._counting("reading checksums"):
            return export_files.digests(folder)

    def _made_from(self, checkpoint: str) -> dict[str, str]:
        """Returns the files of an export that tell what it was made from."""
        return {
            "checkpoint.sha256": f"{checkpoint_files.digest(checkpoint)}\n",
            "config.yaml": config_file.dump(self._job, redacted=True),
            "manifest.sha256": f"{self._records.manifest.sha256}\n",
        }

    def _slices(self, estimator: Any, checkpoint: str, split: str) -> list[slice_metrics.Row]:
        by = self._job.eval.slices
        if not by:
            return []
        return slice_metrics.rows(self._records, estimator, checkpoint, split, by, self._hooks)

    def _add_extras(
        self,
        folder: str,
        step: int,
        metrics: model_card.Metrics,
        slices: Mapping[str, list[slice_metrics.Row]],
        made_from: Mapping[str, str],
    ) -> None:
        contents = self._records.manifest
        of_slices = {split: list(map(dataclasses.asdict, rows)) for split, rows in slices.items()}
        found = {"step": step, "metrics": metrics, "slices": of_slices}
        extras = {
            **made_from,
            "metrics.json": strict_json.dumps(found, indent=1) + "\n",
            "model_card.md": model_card.render(
                self._job,
                contents,
                self._records.transforms.plan,
                step,
                metrics,
                slices,
                quarantine.told(self._records.left_out),
            ),
        }
        classes = self._records.transforms.plan.label.values
        if classes is not None:
            extras[exported.CLASSES] = strict_json.dumps(list(classes)) + "\n"
        storage.makedirs(storage.join(folder, exported.EXTRAS))
        for name, text in extras.items():
            storage.write_text(storage.join(folder, exported.EXTRAS, name), text)


def _is_made_from(folder: str, made_from: Mapping[str, str]) -> bool:
    paths = {storage.join(folder, exported.EXTRAS, name): made_from[name] for name in made_from}
    return all(storage.exists(p) and storage.read_text(p) == text for p, text in paths.items())


@dataclasses.dataclass(frozen=True)
class Export:
    """A published model: where it is, and the SHA-256 of each of its files."""

    path: str
    sha256: dict[str, str]


def _name_signatures(folder: str) -> None:
    """Gives the signature that takes Examples a name of its own: Estimator calls it after two."""
    path = storage.join(folder, export_files.LAST)
    with open(path, "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    for graph in model.meta_graphs:
        long = f"{parity_worker.EXAMPLES}:{heads.SERVING}"
        if long in graph.signature_def:
            graph.signature_def[parity_worker.EXAMPLES].CopyFrom(graph.signature_def[long])
            del graph.signature_def[long]
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))


def staging(folder: str) -> str:
    """Returns a folder to write a model to that is published below `folder`: on gs:// nothing can
    be renamed, so it is elsewhere."""
    if storage.is_remote(folder):
        return tempfile.mkdtemp(prefix="estimator-pipeline-export-")
    return storage.join(folder, f"{_STAGING}{uuid.uuid4().hex}")


def serving_input_fn(transforms: Transforms) -> Any:
    """Returns the receiver of the exported model: one tensor of raw values a column, or serialized
    Examples.

    A uint8 column is fed as `[batch]` strings of its bytes, row-major; of one that may be missing,
    what is missing as `Column.stands_for_missing`.
    """

    def receiver() -> Any:
        columns = transforms.serving_columns
        serialized, raw = parsing.serving_inputs(columns)
        decoded = {n: parsing.decode(t, columns[n]) for n, t in raw.items()}
        return tf.estimator.export.ServingInputReceiver(
            transforms.features(decoded),
            raw,
            {parity_worker.EXAMPLES: {parity_worker.EXAMPLES: serialized}},
        )

    return receiver


def check_metric(metric: str, reported: Iterable[str]) -> None:
    """Raises `UsageError` if `eval.metric` is none of what the model reports."""
    known = sorted(set(reported) - {"global_step"})
    if metric not in known:
        raise errors.UsageError(
            f"eval.metric {metric!r}: the model reports {', '.join(known)}"
            f"{errors.nearest(metric, known)}"
        )


def plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns metrics as Python numbers, which JSON can hold."""
    return {name: float(value) for name, value in metrics.items()}
