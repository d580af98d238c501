"""Clicks on items that were shown to users, in the shape of the Criteo data sets.

13 numbers `i1` to `i13`, 26 categories `c1` to `c26` of the cardinalities that are published for
Criteo Kaggle (DeepRec, modelzoo/wide_and_deep), a user, an item, a day, and two lists: the `tags`
of the item, and what the user has `clicked` before. Ids are drawn by Zipf's law, numbers are
log-normal with many zeros, and some values are missing.

Row i depends on the seed and on i alone, so any part of the table can be made by itself. The
probability of a click is the column `p_click`: nothing that is learned from the others can do
better, which gives the best AUC and the least log loss there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

# fmt: off
NUMBER_MAXIMA = (
    1539, 22066, 65535, 561, 2655388, 233523, 26279, 5106, 24376, 9, 181, 1807, 6879,
)
CARDINALITIES = (
    1396, 553, 2594031, 698469, 290, 23, 12048, 608, 3, 65156, 5309, 2186509, 3128,
    26, 12750, 1537323, 10, 5002, 2118, 4, 1902327, 17, 15, 135790, 94, 84305,
)
# fmt: on
USERS, ITEMS, TAGS, TOPICS, DAYS = 400_000, 100_000, 200, 20, 7
SMALLEST = 3  # values of a category, whatever the scale
MOST_TAGS, MOST_CLICKED = 5, 30
_ZIPF = 1.1
# The deviation of each kind of effect on the logit of a click.
_CATEGORY, _NUMBER, _USER, _ITEM, _TAG, _CROSS = 0.22, 0.25, 0.5, 0.5, 0.3, 0.35
_TASTE = 3.0  # for a share of the clicked items that are about the topic of this one
_BASE = -1.6
_Array = np.ndarray


def table(
    first: int, rows: int, *, seed: int = 1, scale: float = 0.01, days: int = DAYS
) -> pa.Table:
    """Returns rows `first` to `first + rows`.

    `scale` multiplies the numbers of categories, users and items. The days follow each other in
    equal turns, row by row; each has a base rate of its own.
    """
    draw = _Draws(seed, np.arange(first, first + rows, dtype=np.uint64))
    columns: dict[str, pa.Array] = {"day": pa.array((draw.rows % np.uint64(days)).astype(np.int64))}
    logit = _BASE + 0.2 * np.sin(2 * np.pi * columns["day"].to_numpy() / days)
    users, items = (max(SMALLEST, int(n * scale)) for n in (USERS, ITEMS))
    user, item = draw.zipf("user", users), draw.zipf("item", items)
    topic = _choose_topic(item, seed)
    columns["user"] = _format_texts("u", user)
    columns["item"] = _format_texts("i", item)
    logit += _USER * _draw_effect("user", user, seed) + _ITEM * _draw_effect("item", item, seed)
    columns["tags"], found = _draw_tags(draw, item, seed)
    logit += found
    columns["clicked"], found = _draw_clicked(draw, user, topic, items=items, seed=seed)
    logit += found
    for number, most in enumerate(NUMBER_MAXIMA, start=1):
        columns[f"i{number}"], found = _draw_number(draw, f"i{number}", most, seed=seed)
        logit += found
    ids = {}
    for number, cardinality in enumerate(CARDINALITIES, start=1):
        name = f"c{number}"
        ids[name] = draw.zipf(name, max(SMALLEST, int(cardinality * scale)))
        missing = draw.uniform(f"{name} missing") < (number % 5) * 0.02
        columns[name] = _format_texts(f"{name}-", ids[name], missing)
        logit += _CATEGORY * np.where(missing, 0.0, _draw_effect(name, ids[name], seed))
    for one, other in (("c6", "c17"), ("c9", "c20"), ("c5", "c22")):
        logit += _CROSS * _draw_effect(f"{one} {other}", ids[one] * 1_000_003 + ids[other], seed)
    chance = 1 / (1 + np.exp(-logit))
    label = (draw.uniform("label") < chance).astype(np.int64)
    return pa.table(
        {
            "row": pa.array(draw.rows.astype(np.int64)),
            "label": pa.array(label),
            "p_click": pa.array(chance),
            **columns,
        }
    )


class _Draws:
    """Numbers that are random by what they are for, the seed and the row."""

    def __init__(self, seed: int, rows: _Array) -> None:
        """`rows` are the numbers of the rows, uint64 of [rows]."""
        self._seed, self.rows = seed, rows

    def uniform(self, name: str, place: int = 0) -> _Array:
        """Returns numbers in (0, 1), one a row; `place` tells several draws of one name apart."""
        return _draw_uniform(self.rows, f"{name} {place}", self._seed)

    def zipf(self, name: str, ids: int, place: int = 0) -> _Array:
        """Returns ids from 0 to `ids`, the frequent ones first."""
        power = 1 - _ZIPF
        # The inverse of the distribution function of a bounded power law.
        drawn = ((ids + 1.0) ** power - 1) * self.uniform(name, place) + 1
        return np.minimum((drawn ** (1 / power)).astype(np.int64) - 1, ids - 1)


def _draw_uniform(keys: _Array, name: str, seed: int) -> _Array:
    """Returns numbers in (0, 1) by splitmix64 (Steele, Lea and Flood, 2014) of keys and name."""
    text = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    start = np.uint64(int.from_bytes(text, "little"))
    with np.errstate(over="ignore"):
        x = start + (keys + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return ((x >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53


def _draw_normal(keys: _Array, name: str, seed: int) -> _Array:
    """Returns normal numbers by Box and Muller, 1958."""
    radius = np.sqrt(-2 * np.log(_draw_uniform(keys, f"{name} radius", seed)))
    return radius * np.cos(2 * np.pi * _draw_uniform(keys, f"{name} angle", seed))


def _draw_effect(name: str, ids: _Array, seed: int) -> _Array:
    """Returns what each id adds to the logit, of deviation 1 over the ids."""
    return _draw_normal(ids.astype(np.uint64), f"effect of {name}", seed)


def _choose_topic(item: _Array, seed: int) -> _Array:
    return (_draw_uniform(item.astype(np.uint64), "topic", seed) * TOPICS).astype(np.int64)


def _format_texts(prefix: str, ids: _Array, missing: _Array | None = None) -> pa.Array:
    return pa.array([f"{prefix}{n:x}" for n in ids.tolist()], pa.string(), mask=missing)


def _build_lists(prefix: str, places: Sequence[_Array], lengths: _Array) -> pa.Array:
    """Returns lists: of `places`, of [rows] each, the first `lengths` of each row."""
    ids = np.stack(places, axis=1)
    kept = np.arange(len(places)) < lengths[:, None]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, _format_texts(prefix, ids[kept]))


def _draw_tags(draw: _Draws, item: _Array, seed: int) -> tuple[pa.Array, _Array]:
    """Returns the tags of items, always the same ones, and the mean of their effects."""
    keys = item.astype(np.uint64)
    lengths = (_draw_uniform(keys, "number of tags", seed) * (MOST_TAGS + 1)).astype(np.int64)
    places = [
        (_draw_uniform(keys, f"tag {n}", seed) ** 2 * TAGS).astype(np.int64)
        for n in range(MOST_TAGS)
    ]
    kept = np.arange(MOST_TAGS) < lengths[:, None]
    effects = np.stack([_draw_effect("tag", ids, seed) for ids in places], axis=1)
    mean = (effects * kept).sum(axis=1) / np.maximum(lengths, 1)
    return _build_lists("t", places, lengths), _TAG * mean


def _draw_clicked(
    draw: _Draws, user: _Array, topic: _Array, *, items: int, seed: int
) -> tuple[pa.Array, _Array]:
    """Returns what users have clicked before, the newest last, and what it says of this click: a
    user has a taste for a topic, and clicks more of it."""
    taste = (_draw_uniform(user.astype(np.uint64), "taste", seed) * TOPICS).astype(np.int64)
    lengths = (draw.uniform("number clicked") ** 2 * (MOST_CLICKED + 1)).astype(np.int64)
    places = []
    for place in range(MOST_CLICKED):
        ids = draw.zipf("clicked", items, place)
        # The one of three items that could be clicked that is most to the user's taste.
        for other in range(2):
            next_ids = draw.zipf(f"clicked else {other}", items, place)
            ids = np.where(_choose_topic(ids, seed) == taste, ids, next_ids)
        places.append(ids)
    kept = np.arange(MOST_CLICKED) < lengths[:, None]
    same = np.stack([_choose_topic(ids, seed) == topic for ids in places], axis=1)
    share = (same & kept).sum(axis=1) / np.maximum(lengths, 1)
    return _build_lists("i", places, lengths), _TASTE * share


def _draw_number(draw: _Draws, name: str, most: int, *, seed: int) -> tuple[pa.Array, _Array]:
    """Returns counts with many zeros and long tails, and what they add to the logit."""
    index = int(name[1:])
    normal = _draw_normal(draw.rows, name, seed)
    values = np.minimum(np.exp(np.log(most) * (0.35 + 0.13 * normal)), most).astype(np.int64)
    values[draw.uniform(f"{name} zero") < 0.1 + 0.04 * (index % 6)] = 0
    missing = draw.uniform(f"{name} missing") < 0.03 * (index % 4)
    size = np.log1p(values) / np.log1p(most)
    effect = _NUMBER * np.sin(index + 5 * size)
    return pa.array(values, mask=missing), np.where(missing, 0.0, effect)
