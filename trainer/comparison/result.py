"""What a comparison of two runs found: by slice the metrics of both, and what else differs."""

from __future__ import annotations

import dataclasses

import numpy as np

from pipeline import config, errors
from pipeline.reports.differences import Row
from trainer.comparison import paired
from trainer.comparison.paired import Difference
from trainer.comparison.pairing import Pairs
from trainer.comparison.predictions import SplitPredictions
from trainer.metrics import slice_metrics


@dataclasses.dataclass(frozen=True)
class ComparedSlice:
    """The metrics of both models on some of the records that they are compared on."""

    name: str
    records: int
    metrics: dict[str, Difference]


@dataclasses.dataclass(frozen=True)
class Differing:
    """What else differs: rows of what it is, and what it is in A and in B."""

    config: list[Row]
    code: list[Row]
    statistics: list[Row]
    outcome: list[Row]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Everything that is shown. `metric` is the one that decides, by its name here; `None` if no
    paired interval of it is known. `higher` says whether more of it is better."""

    names: tuple[str, str]
    steps: tuple[int, int]
    split: str
    pairs: Pairs
    slices: list[ComparedSlice]
    wanted: str
    metric: str | None
    higher: bool | None
    differing: Differing
    notes: tuple[str, ...] = ()
    # Metrics that models like these have, but not on any records.
    defined: tuple[str, ...] = ()

    @property
    def whole(self) -> ComparedSlice:
        """All records that the two are compared on."""
        return self.slices[0]

    @property
    def verdict(self) -> str:
        """That of the deciding metric, see `Difference.verdict`; without one an empty string."""
        if self.metric is None:
            return ""
        return self.whole.metrics[self.metric].verdict(self.higher)

    def is_higher_better(self, metric: str) -> bool | None:
        """Returns whether more of a metric is better."""
        return self.higher if metric == self.metric else paired.higher_is_better(metric)


def compare_slices(
    a: SplitPredictions,
    b: SplitPredictions,
    pairs: Pairs,
    *,
    job: config.Config,
    runs: tuple[str, str],
) -> list[ComparedSlice]:
    """Returns all records and the slices of A's columns. Raises `DataError` if the labels of the
    same records differ, `UsageError` if one is a classifier and the other is not."""
    labels = a.labels[pairs.a]
    differ = int(np.count_nonzero(labels != b.labels[pairs.b]))
    if differ:
        raise errors.DataError(
            f"runs {runs[0]!r} and {runs[1]!r}: have other labels for {differ:,} of the "
            f"{len(labels):,} records that they share, so no metric is of the same thing. Compare "
            "runs that learn the same label"
        )
    if (a.answers is None) != (b.answers is None):
        raise errors.UsageError(
            f"runs {runs[0]!r} and {runs[1]!r}: one predicts classes, the other numbers; compare "
            "runs of the same task"
        )
    found = {slice_metrics.LABEL: labels}
    found |= {slice_metrics.SLICE + name: x[pairs.a] for name, x in a.slices.items()}
    masks = slice_metrics.build_slice_masks(found, list(a.slices), job.data.columns)
    return [
        ComparedSlice(
            name, int(mask.sum()), _compare_metrics(a, b, pairs, mask=mask, top=job.eval.top_k)
        )
        for name, mask in masks
    ]


def _compare_metrics(
    a: SplitPredictions, b: SplitPredictions, pairs: Pairs, *, mask: np.ndarray, top: int
) -> dict[str, Difference]:
    one, other = pairs.a[mask], pairs.b[mask]
    if a.answers is not None and b.answers is not None:
        of_a, of_b = a.answers.select(one), b.answers.select(other)
        return paired.compare_classifiers(of_a, of_b, top)
    assert a.numbers is not None and b.numbers is not None
    return paired.compare_regressors(a.labels[one], a.numbers[one], b.numbers[other])
