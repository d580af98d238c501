"""Whether a model's answers to a row depend on the other rows of its batch.

What such a model answers to a caller depends on who else asks, so it cannot be served as it was
trained. Rounding moves answers, too, by the size of the batch and the place of the row in it; but
not by what the other rows hold. So a row is answered twice in batches of one size, at one place,
with all other rows exchanged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from trainer.export import differences, rounding
from trainer.heads import heads

# Rows of a batch in which others are exchanged, if there are enough: of many each matters little,
# and of two each is as far from their mean.
_MOST_ROWS = 3


@dataclasses.dataclass(frozen=True)
class Order:
    """The numbers of rows in the order in which they are answered, and the sizes of batches."""

    rows: np.ndarray
    sizes: Sequence[int]


def split_by_order(answers: rounding.Answers, orders: Sequence[Order]) -> list[rounding.Answers]:
    """Cuts answers into those of each order that is whole, row by row as in the first."""
    parts: list[rounding.Answers] = []
    start = 0
    for order in (one.rows for one in orders):
        part = {name: x[start : start + len(order)] for name, x in answers.items()}
        start += len(order)
        if not parts:
            parts.append(part)
        elif part and all(len(x) == len(order) for x in part.values()):
            parts.append({name: x[np.argsort(order)] for name, x in part.items()})
    return parts


# Returns the answers to the first rows in each order, row by row as in the records.
Ask = Callable[[Sequence[Order]], list[rounding.Answers]]


def find(answers: rounding.Answers, others: Sequence[rounding.Answers], *, ask: Ask) -> str | None:
    """Returns in words how the answers to rows as they are depend on the other rows of a batch,
    or `None`.

    `others` are answers to the same rows in other batches: if they moved by no more than rounding,
    nothing is asked.
    """
    if not any(_find_moved(answers, other) for other in others):
        return None
    orders = list_exchanged_orders(len(next(iter(answers.values()))))
    asked = ask(orders) if orders else []
    if len(asked) < 2:
        return None
    once, again = asked
    moved = _find_moved(once, again)
    if not moved:
        return None
    # What callers see rather than what lies before it.
    output, row = max(moved, key=lambda one: (not heads.is_unscaled(one[0]), moved[one]))
    return (
        "the model's answers to a row depend on the other rows of its batch "
        f"({output} of row {row}: {differences.format_answer(once[output][row])}, next to other "
        f"rows {differences.format_answer(again[output][row])}), so it cannot be served as it was "
        "trained. "
        "Look for a statistic of the batch, such as tf.reduce_mean(x) in a step, and for batch "
        "normalization in training mode; use statistics of the records instead, or averages that "
        "are kept in training"
    )


def list_exchanged_orders(rows: int) -> list[Order]:
    """Returns two orders of the first rows: each has the same place in both, and no neighbour
    twice. Fewer than 4 rows have no such orders."""
    size = min(_MOST_ROWS, math.isqrt(rows))
    if size < 2:
        return []
    batches = rows // size
    first = np.arange(batches * size).reshape(batches, size)
    second = np.stack([np.roll(first[:, place], place) for place in range(size)], axis=1)
    return [Order(order.reshape(-1), [size] * batches) for order in (first, second)]


def _find_moved(answers: rounding.Answers, other: rounding.Answers) -> dict[tuple[str, int], float]:
    """Returns each output that moved by more than rounding can, with the row that moved most, and
    the share of the largest answer by which it did."""
    found = {}
    count = len(next(iter(answers.values()), ()))
    for output, most in rounding.measure(answers, [], np.zeros(count, bool)).most.items():
        values = answers[output]
        if not values.size:
            continue
        ours = values[: len(other[output])].astype(float).reshape(len(other[output]), -1)
        theirs = other[output].astype(float).reshape(ours.shape)
        finite = np.isfinite(ours) & np.isfinite(theirs)
        largest = np.abs(ours[np.isfinite(ours)]).max(initial=np.finfo(np.float32).tiny)
        by = np.abs(np.where(finite, theirs, 0) - np.where(finite, ours, 0)) / largest
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        by = np.where(finite | same, by, np.inf).max(axis=1)
        row = int(by.argmax())
        if by[row] > most:
            found[output, row] = float(by[row])
    return found
