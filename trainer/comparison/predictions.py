"""What a model predicts for every record of a split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs import resuming
from trainer import experiment
from trainer.checkpoints import checkpoint_files, read_errors
from trainer.comparison.pairing import ComparedRun
from trainer.input import grouping
from trainer.input.dataset import RecordDataset
from trainer.lifecycle import failures
from trainer.metrics import class_metrics, slice_metrics
from trainer.metrics.class_metrics import Answers


@dataclasses.dataclass(frozen=True)
class SplitPredictions:
    """Predictions of one checkpoint in the order of the split, `[records]` each: `numbers` of a
    regressor, `answers` of a classifier; of every column of `slices` its values."""

    step: int
    labels: np.ndarray
    numbers: np.ndarray | None
    answers: Answers | None
    slices: Mapping[str, np.ndarray]


def predict(
    side: ComparedRun, split: str, checkpoint: str | None, *, slices: Sequence[str]
) -> SplitPredictions:
    """Returns what the model of a checkpoint (`read_errors.find_intact`) predicts.

    Raises `UsageError` for a model that serves neither `class` nor `prediction`, `DataError` for
    damaged records, `ModelError` for predictions that are not finite, and `read_errors.Deleted` if
    training deletes the checkpoint meanwhile.
    """
    if side.job.labels:
        raise errors.UsageError(
            f"run {side.run.name!r}: has several labels, {', '.join(side.job.labels)}; only "
            "models of one label can be compared"
        )
    # In one replica, whatever the run is evaluated in: of two runs each may ask for other devices.
    cluster = side.job.cluster.model_copy(update={"eval_strategy": "none"})
    job = side.job.model_copy(update={"cluster": cluster})
    records = RecordDataset(job, side.folder, side.contents, excluded=side.excluded)
    grouping.check(side.job, split, side.contents.split(split).records)
    (path,) = read_errors.find_intact(side.run.path, checkpoint)
    task = topology.Task(topology.EVALUATOR, 0)
    estimator = experiment.build_estimator(job, side.run, task, transforms=records.transforms)
    with (
        resuming.explain_record_errors(side.run),
        failures.translate_reading(records),
        read_errors.explain(path),
    ):
        step = checkpoint_files.read_step(path)  # now: training may delete it when it was read
        kept = [
            _select_needed(batch)
            for batch in slice_metrics.score_batches(
                records, estimator, path, split=split, slices=slices, hooks=()
            )
        ]
    found = {name: np.concatenate([batch[name] for batch in kept]) for name in kept[0]}
    if "class" not in found and "prediction" not in found:
        raise errors.UsageError(
            f"run {side.run.name!r}: its model serves neither 'class' nor 'prediction', so there "
            "is nothing to compare by record"
        )
    served = found.get("class", found.get("prediction"))
    if served is None or served.ndim != 1 or found[slice_metrics.LABEL].ndim != 1:
        raise errors.UsageError(
            f"run {side.run.name!r}: predicts several values per record; only models of one class "
            "or one number can be compared"
        )
    _check_finite(side, found)
    labels = found[slice_metrics.LABEL]
    prefix = slice_metrics.SLICE
    return SplitPredictions(
        step=step,
        labels=labels,
        numbers=found.get("prediction") if "class" not in found else None,
        answers=_build_answers(found) if "class" in found else None,
        slices={n.removeprefix(prefix): x for n, x in found.items() if n.startswith(prefix)},
    )


def _select_needed(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    ours = (slice_metrics.LABEL, slice_metrics.GROUP, "class", "prediction")
    kept = {n: x for n, x in batch.items() if n in ours or n.startswith(slice_metrics.SLICE)}
    labels, chances = batch[slice_metrics.LABEL], batch.get("probabilities")
    if chances is None or chances.ndim != 2 or labels.dtype.kind not in "biu":
        return kept
    if chances.shape[1] == 2:
        kept["positive"] = chances[:, 1]
    inside = np.clip(labels.astype(int), 0, chances.shape[1] - 1)
    kept["likelihood"] = chances[np.arange(len(labels)), inside]
    return kept


def _build_answers(found: Mapping[str, np.ndarray]) -> Answers:
    groups = found.get(slice_metrics.GROUP)
    return Answers(
        found[slice_metrics.LABEL],
        found["class"],
        found.get("positive"),
        found.get("likelihood"),
        None if groups is None else class_metrics.number_groups(groups, grouping.MISSING),
    )


def _check_finite(side: ComparedRun, found: Mapping[str, np.ndarray]) -> None:
    for name in ("prediction", "positive", "likelihood"):
        values = found.get(name)
        bad = 0 if values is None else int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            raise errors.ModelError(
                f"run {side.run.name!r}: predicts {name} that is not finite for {bad:,} of "
                f"{len(found[name]):,} records"
            )
