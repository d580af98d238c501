"""What the plots of an evaluation need, counted batch by batch: memory does not grow with records.

Scores and predictions are counted in narrow bins. At the ends of bins, and in all sums, what is
told is exact; within a bin examples are taken as equal.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from trainer.metrics import intervals
from trainer.metrics.intervals import MetricEstimate

# Bins of probabilities lie evenly on the scale of logits, so that rare classes are resolved too.
_BINS, _LOGIT = 8192, 16.0
CALIBRATION = 10
# Bins of predictions, over twice the scale; cells of the map of predictions and labels, each way.
_FINE, CELLS, RESIDUALS, DECILES = 4096, 40, 41, 10


@dataclasses.dataclass(frozen=True)
class Threshold:
    """What follows from calling everything positive that scores above some threshold."""

    true_positives: int
    false_positives: int
    positives: int
    negatives: int

    @property
    def false_positive_rate(self) -> float:
        """The share of negatives that are called positive."""
        return self.false_positives / self.negatives

    @property
    def recall(self) -> MetricEstimate:
        """The share of positives that are called so."""
        return intervals.wilson(self.true_positives, self.positives)

    @property
    def precision(self) -> MetricEstimate:
        """The share of those called positive that are."""
        return intervals.wilson(self.true_positives, self.true_positives + self.false_positives)


@dataclasses.dataclass(frozen=True)
class Reliability:
    """Examples whose probabilities are in one tenth of the scale: their mean, and how many of them
    were positive."""

    count: int
    predicted: float
    observed: MetricEstimate


class Binary:
    """Probabilities of the second of two classes, by label."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, _BINS), np.int64)
        # Rows: calibration bins. Columns: examples, sum of probabilities, positives.
        self._calibration = np.zeros((CALIBRATION, 3))
        # [label, predicted], at a threshold of a half.
        self.confusion = np.zeros((2, 2), np.int64)

    def add(self, labels: np.ndarray, probabilities: np.ndarray) -> None:
        """Counts a batch: `[examples]` labels of 0 and 1, and probabilities of 1. Numbers that
        are no probability, such as NaN, are left out."""
        known = (probabilities >= 0) & (probabilities <= 1)
        positive, p = labels[known] == 1, probabilities[known].astype(float)
        with np.errstate(divide="ignore"):
            logits = np.clip(np.log(p) - np.log1p(-p), -_LOGIT, _LOGIT)
        bins = np.minimum((logits + _LOGIT) * (_BINS / (2 * _LOGIT)), _BINS - 1).astype(int)
        tenths = np.minimum(p * CALIBRATION, CALIBRATION - 1).astype(int)
        for column, weights in enumerate((None, p, positive.astype(float))):
            self._calibration[:, column] += np.bincount(tenths, weights, CALIBRATION)
        for label, chosen in enumerate((~positive, positive)):
            self._counts[label] += np.bincount(bins[chosen], minlength=_BINS)
            above = int(np.count_nonzero(p[chosen] > 0.5))
            self.confusion[label] += (int(np.count_nonzero(chosen)) - above, above)

    @property
    def has_both_labels(self) -> bool:
        """True if both labels were there: otherwise there are no curves."""
        return bool(self._counts.sum(axis=1).all())

    def thresholds(self) -> list[Threshold]:
        """Returns what follows from each threshold that matters, from the highest on."""
        false, true = (np.cumsum(counts[::-1]).tolist() for counts in self._counts)
        found, last = [Threshold(0, 0, true[-1], false[-1])], (0, 0)
        for hits, misses in zip(true, false, strict=True):
            if (hits, misses) != last:
                found.append(Threshold(hits, misses, true[-1], false[-1]))
                last = hits, misses
        return found

    def calibration(self) -> list[Reliability]:
        """Returns the tenths of the scale that have examples."""
        return [
            Reliability(int(n), total / n, intervals.wilson(int(positives), int(n)))
            for n, total, positives in self._calibration.tolist()
            if n
        ]

    def compute_means(self) -> tuple[float, MetricEstimate]:
        """Returns the mean probability, and the share of positives."""
        n, total, positives = self._calibration.sum(axis=0).tolist()
        return total / n, intervals.wilson(int(positives), int(n))


@dataclasses.dataclass(frozen=True)
class Confused:
    """Examples of one class that were taken for another."""

    label: int
    predicted: int
    count: int
    of: int


class Classes:
    """Which classes were taken for which."""

    def __init__(self) -> None:
        self._pairs: collections.Counter[tuple[int, int]] = collections.Counter()

    def add(self, labels: np.ndarray, predicted: np.ndarray) -> None:
        """Counts a batch of whole numbers, `[examples]` each."""
        pairs, counts = np.unique(np.stack([labels, predicted]), axis=1, return_counts=True)
        for (label, guess), n in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            self._pairs[int(label), int(guess)] += n

    @property
    def count(self) -> int:
        """How many classes occur."""
        return len({one for pair in self._pairs for one in pair})

    def choose(self, most: int) -> list[int]:
        """Returns the classes, at most the `most` of them that errors have most to do with."""
        errors: collections.Counter[int] = collections.Counter()
        for (label, guess), n in self._pairs.items():
            errors[label] += n * (label != guess)
            errors[guess] += n * (label != guess)
        return sorted(sorted(errors, key=lambda one: (-errors[one], one))[:most])

    def matrix(self, of: Sequence[int]) -> np.ndarray:
        """Returns `[label, predicted]`, how often each of some classes was taken for each."""
        return np.array([[self._pairs[label, guess] for guess in of] for label in of])

    def size(self, label: int) -> int:
        """Returns how many examples have a label."""
        return sum(n for (one, _), n in self._pairs.items() if one == label)

    def recall(self, label: int) -> MetricEstimate | None:
        """Returns the share of a class that is found."""
        return _estimate_share(self._pairs[label, label], self.size(label))

    def precision(self, predicted: int) -> MetricEstimate | None:
        """Returns the share of what is taken for a class that is of it."""
        total = sum(n for (_, one), n in self._pairs.items() if one == predicted)
        return _estimate_share(self._pairs[predicted, predicted], total)

    def top_confusions(self, most: int) -> list[Confused]:
        """Returns what is most often taken for something else."""
        wrong = [(n, pair) for pair, n in self._pairs.items() if pair[0] != pair[1]]
        ordered = sorted(wrong, key=lambda one: (-one[0], one[1]))[:most]
        return [Confused(*pair, n, self.size(pair[0])) for n, pair in ordered]


def _estimate_share(hits: int, of: int) -> MetricEstimate | None:
    return intervals.wilson(hits, of) if of else None


@dataclasses.dataclass(frozen=True)
class Decile:
    """About a tenth of the examples, by what was predicted. `residual` is the mean of predicted
    minus observed; `predicted` and `observed` are means."""

    count: int
    predicted: float
    observed: float
    residual: MetricEstimate
    rmse: float


class PredictedNumbers:
    """Predicted numbers, by label, on a scale that is given: what is beyond it is counted at its
    ends, but enters sums as it is."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high if high > low else low + 1.0
        # Rows: bins of predictions. Columns: examples, sums of predictions, of residuals and of
        # their squares.
        self._fine = np.zeros((_FINE, 4))
        # [predicted, observed]
        self.map = np.zeros((CELLS, CELLS), np.int64)
        self.residuals = np.zeros(RESIDUALS, np.int64)
        self.beyond = 0

    @property
    def reach(self) -> float:
        """Residuals are counted from minus this to this: half the scale."""
        return (self.high - self.low) / 2

    def add(self, labels: np.ndarray, predictions: np.ndarray) -> None:
        """Counts a batch, `[examples]` each; what is not finite is left out."""
        y, p = labels.astype(float), predictions.astype(float)
        finite = np.isfinite(y) & np.isfinite(p)
        y, p = y[finite], p[finite]
        span, r = self.high - self.low, p - y
        fine = _find_bins(p, self.low - span / 2, self.high + span / 2, count=_FINE)
        for column, weights in enumerate((None, p, r, r * r)):
            self._fine[:, column] += np.bincount(fine, weights, _FINE)
        places = [_find_bins(one, self.low, self.high, count=CELLS) for one in (p, y)]
        self.map += np.bincount(places[0] * CELLS + places[1], minlength=CELLS**2).reshape(
            CELLS, CELLS
        )
        self.residuals += np.bincount(
            _find_bins(r, -self.reach, self.reach, count=RESIDUALS), minlength=RESIDUALS
        )
        inside = (p >= self.low) & (p <= self.high) & (y >= self.low) & (y <= self.high)
        self.beyond += int(np.count_nonzero(~inside))

    @property
    def count(self) -> int:
        """How many examples were counted."""
        return int(self._fine[:, 0].sum())

    def deciles(self) -> list[Decile]:
        """Returns tenths of the examples by what was predicted, from the lowest on; fewer if many
        predictions are equal."""
        total, found = self.count, []
        rows = self._fine[self._fine[:, 0] > 0]
        # A bin belongs to the tenth in which its middle example is.
        middles = np.cumsum(rows[:, 0]) - rows[:, 0] / 2
        tenths = np.minimum(middles / max(total, 1) * DECILES, DECILES - 1).astype(int)
        for tenth in np.unique(tenths):
            found.append(_build_decile(rows[tenths == tenth].sum(axis=0)))
        return found


def _build_decile(sums: np.ndarray) -> Decile:
    n, predicted, residual, square = sums.tolist()
    mean = residual / n
    half = 0.0
    if n > 1:
        variance = max(0.0, square - n * mean * mean) / (n - 1)
        half = intervals.student_t(int(n) - 1) * (variance / n) ** 0.5
    estimate = intervals.mark_if_alike(
        MetricEstimate(mean, mean - half, mean + half, n < intervals.FEW)
    )
    return Decile(int(n), predicted / n, (predicted - residual) / n, estimate, (square / n) ** 0.5)


def _find_bins(values: np.ndarray, low: float, high: float, *, count: int) -> np.ndarray:
    """Returns in which of `count` equal bins values are; those beyond are in the outermost."""
    places = np.floor((values - low) / (high - low) * count)
    return np.clip(places, 0, count - 1).astype(int)


Summary = Binary | Classes | PredictedNumbers
