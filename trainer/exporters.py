"""What is published of a run: the best and the final model, as SavedModels.

`tf.estimator.BestExporter` forgets its best at every restart and lets a worse model replace it
(traps A13); here the best is a file, `best.json`.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline import config, errors, run_folder, storage
from pipeline.run_folder import RunFolder
from trainer import best, early_stopping, features
from trainer.reporter import Reporter
from trainer.transforms import Transforms

BEST = "best.json"
# With this file a SavedModel is one, for all who look.
_LAST = "saved_model.pb"


class Judge(tf.estimator.Exporter):
    """Looks at every evaluation: reports it, and exports the model if it is the best so far.

    It is an `Exporter`, so `train_and_evaluate` calls it in a single process; the evaluator of a
    cluster calls it itself.
    """

    def __init__(
        self, job: config.Config, run: RunFolder, reporter: Reporter, transforms: Transforms
    ) -> None:
        self._job = job
        self._transforms = transforms
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
        """Exports `checkpoint_path` if its metric beats the recorded best; returns the path."""
        metrics = plain(eval_result)
        step = int(metrics["global_step"])
        self._reporter.say("evaluating", step=step, evaluation={"step": step, **metrics})
        metric = self._job.eval.metric
        if metric not in metrics:
            known = sorted(set(metrics) - {"global_step"})
            raise errors.UsageError(
                f"eval.metric {metric!r}: the model reports {', '.join(known)}"
                f"{errors.nearest(metric, known)}"
            )
        self._note(metrics)
        old = self._run.read(BEST)
        reference = None if old is None else float(old["value"])
        if not best.is_better(metrics[metric], reference, self._job.eval.higher_is_better):
            return None
        path = publish(estimator, self._transforms, self._run, "best", checkpoint_path, step)
        self._run.write(
            BEST, {"step": step, "metric": metric, "value": metrics[metric], "export": path}
        )
        if old is not None and old["export"] != path:
            storage.remove(old["export"])
        return path

    def _note(self, metrics: dict[str, float]) -> None:
        """Adds to the list of evaluations, and asks for the end of training if it is time.

        The same step judged again replaces what was said of it: after a restart it may be.
        """
        known = (self._run.read(early_stopping.EVALUATIONS) or {"evaluations": []})["evaluations"]
        others = [m for m in known if m["global_step"] != metrics["global_step"]]
        evaluations = sorted([*others, metrics], key=lambda m: float(m["global_step"]))
        self._run.write(early_stopping.EVALUATIONS, {"evaluations": evaluations})
        reason = early_stopping.reason_to_stop(evaluations, self._job.eval)
        if reason is not None:
            self._run.write(run_folder.STOP, {"reason": reason})


def publish(
    estimator: Any, transforms: Transforms, run: RunFolder, kind: str, checkpoint: str, step: int
) -> str:
    """Exports a checkpoint to `export/<kind>/<step>` and returns that path.

    The folder appears whole: the model is written beside it and then published. One that is
    already there is left as it is.
    """
    target = storage.join(run.exports, kind, str(step))
    if storage.exists(storage.join(target, _LAST)):
        return target
    staging = _staging(run)
    try:
        written = estimator.export_saved_model(
            staging, serving_input_fn(transforms), checkpoint_path=checkpoint
        )
        storage.publish_folder(written.decode(), target, last=_LAST)
    finally:
        storage.remove(staging)
    return target


def _staging(run: RunFolder) -> str:
    """Returns a folder to write a model to: on gs:// nothing can be renamed, so it is elsewhere."""
    if storage.is_remote(run.path):
        return tempfile.mkdtemp(prefix="estimator-pipeline-export-")
    return storage.join(run.exports, f".staging-{uuid.uuid4().hex}")


def serving_input_fn(transforms: Transforms) -> Any:
    """Returns the receiver of the exported model: one tensor of raw values a column.

    A uint8 column is fed as `[batch]` strings of its bytes, row-major; of one that may be missing,
    what is missing as `Column.stands_for_missing`.
    """

    def receiver() -> Any:
        columns = transforms.serving_columns
        raw = features.raw_placeholders(columns)
        decoded = {n: features.decode(t, columns[n]) for n, t in raw.items()}
        return tf.estimator.export.ServingInputReceiver(transforms.features(decoded), raw)

    return receiver


def plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns metrics as Python numbers, which JSON can hold."""
    return {name: float(value) for name, value in metrics.items()}
