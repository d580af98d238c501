"""How far two answers of one model can be apart by rounding alone.

Sums of float32 carry an error relative to their largest term, not to their result: `offset + scale
* net` near zero is as inexact as `offset` is. And the order of a sum depends on the batch it is
computed in. So the limit of a difference follows two things that are measured: the scale of an
output, and how far the Estimator's own answers to the same rows move in other batches.

Where answers are narrow and far from zero, such as the seconds of one day since 1970, a share of
their scale may be most of what sets them apart. There the limit follows their spread, down to the
steps in which float32 counts at their scale. Such a step is made by the last sum of a row, now and
then: not by that of every tenth row, so the mean of all differences has a limit of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from trainer.heads import heads

Answers = Mapping[str, np.ndarray]
# Shares of the scale. At least the first is allowed, 8 units in the last place of float32, and at
# most the second, however much the Estimator's own answers move: what moves more is no rounding.
LEAST, MOST = 1e-6, 1e-4
# Rows with an extreme value may cancel terms that are far larger than any answer: at least so many
# times the share of other rows is allowed for them, and at most the second.
_TIMES_EXTREME, _MOST_EXTREME = 16, 1e-3
# Other batches show some of the ways to round, not the worst.
_MARGIN = 4.0
# A spread below this share of the scale is narrow: what is allowed shrinks with it. But at least so
# many times the epsilon of float32, which is one or two of its steps, is allowed for a row, for the
# mean of all, and for what the Estimator's own answers move.
_NARROW = 1e-2
_STEPS, _STEPS_ON_AVERAGE, _STEPS_MOVED = 2, 0.25, 32
# With fewer rows than this the spread is not known.
_ENOUGH = 8
# What the heads of this package and of tf.estimator call outputs whose scale is 1 by definition.
_PROBABILITIES = ("probabilities", "logistic", "all_class_probabilities")


@dataclasses.dataclass(frozen=True)
class Rounding:
    """What was measured of one Estimator, by output: `scale`, its largest answer to rows as they
    are, and at least 1 for what is before the `scale` of the label; the share of it that `rows` as
    they are and `extreme` ones may differ by, and that rows as they are may differ by on `average`;
    `moved`, how far, as a share of the scale, its own answers to rows as they are moved in other
    batches; and `most`, the share that rounding may move."""

    scale: dict[str, float]
    rows: dict[str, float]
    extreme: dict[str, float]
    average: dict[str, float]
    moved: dict[str, float]
    most: dict[str, float]

    def compute_limit(self, output: str, answers: np.ndarray, extreme: np.ndarray) -> np.ndarray:
        """Returns by how much each value of `answers`, `[rows, ...]`, may differ; `extreme` is
        `[rows]` bool."""
        size = _compute_size(answers, self.scale[output])
        share = np.where(extreme, self.extreme[output], self.rows[output])
        return share.reshape([-1] + [1] * (answers.ndim - 1)) * size

    def compare_averages(
        self, output: str, ours: np.ndarray, theirs: np.ndarray
    ) -> tuple[float, float]:
        """Returns how far answers to rows as they are, `[rows, ...]`, are apart on average, and
        how far they may be."""
        scale = self.scale[output]
        if len(ours) < _ENOUGH or ours.shape != theirs.shape:
            return 0.0, scale
        apart = _compute_shift(ours, theirs, _compute_size(ours, scale)).mean()
        return scale * float(apart), scale * self.average[output]


def measure(answers: Answers, others: Sequence[Answers], extreme: np.ndarray) -> Rounding:
    """Measures from an Estimator's answers, `[rows, ...]` by output, and those `others` that it
    gives to the first of the rows in other batches. `extreme` is `[rows]` bool, of the first rows
    if fewer were answered."""
    known = Rounding({}, {}, {}, {}, {}, {})
    for output, values in answers.items():
        if not np.issubdtype(values.dtype, np.floating):
            continue
        as_it_is = ~extreme[: len(values)]
        scale = _choose_scale(output, values[as_it_is])
        size = _compute_size(values, scale)
        shares = [_compute_shift(values, other[output], size) for other in others]
        usual = [share[as_it_is[: len(share)]] for share in shares]
        of_rows = float(np.max([share.max(initial=0.0) for share in usual], initial=0.0))
        of_all = float(np.max([share.max(initial=0.0) for share in shares], initial=0.0))
        on_average = max((float(share.mean()) for share in usual if len(share)), default=0.0)
        eps = float(max(np.finfo(values.dtype).eps, np.finfo(np.float32).eps))
        narrow = _narrow(output, values[as_it_is], scale)
        wide = max(LEAST, 8 * eps)
        least = max(wide * narrow, _STEPS * eps)
        most = max(MOST * narrow, _STEPS_MOVED * eps, least)
        known.scale[output] = scale
        known.moved[output], known.most[output] = of_rows, most
        known.rows[output] = float(np.clip(_MARGIN * of_rows, least, most))
        first = _TIMES_EXTREME * least
        known.extreme[output] = float(np.clip(_MARGIN * of_all, first, max(first, _MOST_EXTREME)))
        of_mean = max(wide * narrow, _STEPS_ON_AVERAGE * eps)
        known.average[output] = float(np.clip(_MARGIN * on_average, of_mean, most))
    return known


def find_ties(answers: Answers, rounding: Rounding, extreme: np.ndarray) -> np.ndarray:
    """Returns `[rows]` bool, whether two classes of a row are so equally likely that rounding
    decides which of them comes first."""
    found = np.zeros(len(extreme), bool)
    for output in rounding.scale:
        values = answers[output]
        if values.ndim != 2 or values.shape[1] < 2:
            continue
        first = np.sort(np.nan_to_num(values.astype(float)), axis=1)[:, -2:]
        limit = rounding.compute_limit(output, values, extreme).max(axis=1)
        found |= first[:, 1] - first[:, 0] <= 2 * limit
    return found


def _is_probability(output: str) -> bool:
    return output.rpartition("/")[2] in _PROBABILITIES  # of one of several labels, too


def _choose_scale(output: str, values: np.ndarray) -> float:
    if _is_probability(output):
        return 1.0
    finite = np.abs(values[np.isfinite(values)].astype(float))
    # A network that has learned to answer nearly nothing, as of a label that is constant, cancels
    # terms of the size that labels have in its units.
    least = 1.0 if heads.is_unscaled(output) else float(np.finfo(np.float32).tiny)
    return float(finite.max(initial=least))


def _narrow(output: str, values: np.ndarray, scale: float) -> float:
    """Returns the spread as a share of what is no longer narrow, at most 1."""
    near = heads.is_unscaled(output) and scale <= 1
    if _is_probability(output) or near or len(values) < _ENOUGH:
        return 1.0
    known = np.where(np.isfinite(values), values, 0).astype(float)
    spread = np.abs(known - np.median(known, axis=0)).max(initial=0.0)
    return float(min(1.0, spread / (_NARROW * scale)))


def _compute_size(values: np.ndarray, scale: float) -> np.ndarray:
    known = np.where(np.isfinite(values), values, 0).astype(float)
    return np.maximum(np.abs(known), scale)


def _compute_shift(values: np.ndarray, other: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Returns `[rows]`, the largest share by which a value of each row of `other` has moved."""
    values, size = values[: len(other)], size[: len(other)]
    both = np.isfinite(values) & np.isfinite(other)
    by = np.where(both, values, 0).astype(float) - np.where(both, other, 0).astype(float)
    return np.asarray((np.abs(by) / size).reshape(len(values), -1).max(axis=1, initial=0.0))
