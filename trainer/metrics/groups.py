"""Metrics of the order within groups, such as the items that one user was shown.

Only groups that hold both labels count: where all labels are equal, no order is better than
another. Equal scores count as every order of them with equal chance, as half does in an area under
the ROC and as in scikit-learn's `ndcg_score`. Intervals take groups, not examples, as independent.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pipeline.models.base import metrics_of_groups
from trainer.metrics import intervals
from trainer.metrics.intervals import MetricEstimate


def is_of_groups(name: str) -> bool:
    """Returns whether a metric is one of these, of any k."""
    return name.partition("@")[0] in {one.partition("@")[0] for one in metrics_of_groups(1)}


@dataclasses.dataclass(frozen=True)
class GroupCounts:
    """Groups by what is in them, and examples that are in none. `usable` groups hold both labels;
    `short` are those of them with at most k examples, where every order has a hit."""

    groups: int
    usable: int
    of_one: int
    only_positive: int
    only_negative: int
    short: int
    without: int


@dataclasses.dataclass(frozen=True)
class Ranked:
    """The metrics of each usable group, `[usable]` each, how many examples it has, and `counts`."""

    sizes: np.ndarray
    area: np.ndarray
    ndcg: np.ndarray
    reciprocal_rank: np.ndarray
    hit: np.ndarray
    counts: GroupCounts


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """Runs of equal scores within a group, from the highest score of each group on: `[blocks]`."""

    group: np.ndarray
    start: np.ndarray  # examples of the group that score higher
    size: np.ndarray
    positives: np.ndarray


def rank(groups: np.ndarray, positive: np.ndarray, scores: np.ndarray, *, top: int) -> Ranked:
    """Returns the metrics of each group, of the first `top` examples by score where they say so.

    `groups` is `[examples]` whole numbers, below 0 for examples that are in no group; `positive` is
    bool, `scores` any numbers.
    """
    inside = groups >= 0
    without = int(len(groups) - np.count_nonzero(inside))
    if without:
        groups, positive, scores = groups[inside], positive[inside], scores[inside]
    order = np.lexsort([-scores, groups])
    groups, positive, scores = groups[order], positive[order], scores[order]
    first = _mark_beginnings(groups)
    number = np.cumsum(first) - 1
    sizes = np.bincount(number) if len(number) else np.zeros(0, int)
    positives = np.bincount(number, positive, len(sizes)).astype(int)
    usable = (positives > 0) & (positives < sizes)
    blocks = _build_blocks(first | _mark_beginnings(scores), number, positive, sizes=sizes)
    counts = GroupCounts(
        groups=len(sizes),
        usable=int(np.count_nonzero(usable)),
        of_one=int(np.count_nonzero(sizes == 1)),
        only_positive=int(np.count_nonzero((positives == sizes) & (sizes > 1))),
        only_negative=int(np.count_nonzero((positives == 0) & (sizes > 1))),
        short=int(np.count_nonzero(usable & (sizes <= top))),
        without=without,
    )
    reciprocal, hit = _find_first_hit(blocks, len(sizes), top)
    area, ndcg = _area(blocks, sizes, positives), _ndcg(blocks, sizes, positives, top=top)
    return Ranked(
        sizes[usable], area[usable], ndcg[usable], reciprocal[usable], hit[usable], counts
    )


def _mark_beginnings(values: np.ndarray) -> np.ndarray:
    """Returns where a value differs from the one before; NaN are equal to each other."""
    differs = np.ones(len(values), bool)
    now, before = values[1:], values[:-1]
    differs[1:] = (now != before) & ((now == now) | (before == before))
    return differs


def _build_blocks(
    first: np.ndarray, number: np.ndarray, positive: np.ndarray, *, sizes: np.ndarray
) -> _Blocks:
    at = np.flatnonzero(first)
    group = number[at]
    begins = np.cumsum(sizes) - sizes
    positives = np.add.reduceat(positive.astype(int), at) if len(at) else np.zeros(0, int)
    return _Blocks(group, at - begins[group], np.diff(at, append=len(number)), positives)


def _area(blocks: _Blocks, sizes: np.ndarray, positives: np.ndarray) -> np.ndarray:
    """Returns how likely a positive of a group scores above a negative of it."""
    below = sizes[blocks.group] - blocks.start - blocks.size / 2 - 0.5
    ranks = np.bincount(blocks.group, blocks.positives * below, len(sizes))
    pairs = positives * (sizes - positives)
    above = ranks - positives * (positives - 1) / 2
    return np.asarray(above / np.maximum(pairs, 1))


def _ndcg(blocks: _Blocks, sizes: np.ndarray, positives: np.ndarray, *, top: int) -> np.ndarray:
    """Returns the discounted gain of a group over the most it could be (Järvelin and Kekäläinen,
    2002); a positive gains 1, at place i over the binary logarithm of i + 1."""
    gains = np.cumsum(1 / np.log2(np.arange(min(top, sizes.max(initial=0))) + 2))
    gained = np.concatenate([[0.0], gains])

    def up_to(places: np.ndarray) -> np.ndarray:
        return np.asarray(gained[np.minimum(places, len(gains))])

    of_block = up_to(blocks.start + blocks.size) - up_to(blocks.start)
    found = np.bincount(blocks.group, of_block * blocks.positives / blocks.size, len(sizes))
    return np.asarray(found / np.maximum(up_to(positives), 1))


def _find_first_hit(blocks: _Blocks, groups: int, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns one over the place of the first positive of each group, and the chance that it is
    among the first `top`; 0 if it is not."""
    hits = np.flatnonzero(blocks.positives)
    hits = hits[_mark_beginnings(blocks.group[hits])]
    reciprocal, hit = np.zeros(groups), np.zeros(groups)
    group, start = blocks.group[hits], blocks.start[hits]
    size, positives = blocks.size[hits], blocks.positives[hits]
    # The chance that none of the places of the block so far has a positive.
    none = np.ones(len(hits))
    for place in range(min(top, int((size - positives).max(initial=0)) + 1)):
        left = np.maximum(size - place, 1)
        here = none * np.minimum(positives / left, 1) * (start + place < top)
        reciprocal[group] += here / (start + place + 1)
        hit[group] += here
        none = none * np.maximum(1 - positives / left, 0)
    return reciprocal, hit


def compute_metrics(ranked: Ranked, top: int) -> dict[str, MetricEstimate]:
    """Returns the metrics with their intervals, by name: the area as a mean weighted by examples,
    the others as plain means of groups. Nothing if no group holds both labels."""
    if not len(ranked.sizes):
        return {}
    plain = (ranked.ndcg, ranked.reciprocal_rank, ranked.hit)
    estimates = [
        intervals.estimate_fraction(ranked.area, weights=ranked.sizes),
        *map(intervals.estimate_fraction, plain),
    ]
    told_of = [dataclasses.replace(one, units=describe(ranked)) for one in estimates]
    return dict(zip(metrics_of_groups(top), told_of, strict=True))


def describe(ranked: Ranked) -> str:
    """Returns `MetricEstimate.units` of these metrics."""
    return intervals.describe_units(
        len(ranked.sizes), examples=int(ranked.sizes.sum()), which=" with both labels"
    )
