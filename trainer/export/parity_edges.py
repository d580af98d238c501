"""Edge cases that an export is compared on: for each column, rows in which its value is replaced by
a missing, an unseen or an extreme one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.config import Column
from pipeline.records import manifest
from pipeline.steps import date_forms
from trainer.input.dataset import RecordDataset

_LISTS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}
_UNSEEN = "\u241a"  # a text that no vocabulary holds
# How a value is changed, whether the schema allows it, and the new feature.
Changed = tuple[str, bool, tf.train.Feature]
Found = Iterator[Changed]


@dataclasses.dataclass(frozen=True)
class Edge:
    """A change to one column, whether the schema allows it, and the new feature; `None` removes the
    feature. `others` are new features of lists that must have the same length."""

    column: str
    change: str
    allowed: bool
    feature: tf.train.Feature | None
    others: Mapping[str, tf.train.Feature] = dataclasses.field(default_factory=dict)

    @property
    def features(self) -> dict[str, tf.train.Feature | None]:
        """All that is new, by column."""
        return {**self.others, self.column: self.feature}


def list_edges(source: RecordDataset) -> Iterator[Edge]:
    """Yields the edge cases of each column that a model takes."""
    statistics = source.manifest.statistics.get("train")
    columns = source.transforms.serving_columns
    others = find_equal_lengths(columns)
    for name, column in columns.items():
        alike = others.get(name, {})
        if column.missing == "allow":
            yield Edge(name, "missing", True, None, build_lists(0, alike))
        seen = statistics.columns.get(name) if statistics else None
        edges = list(_EDGES[column.type](column, seen))
        if column.list:
            edges += list_list_edges(column, edges)
        for change, allowed, feature in edges:
            count = len(getattr(feature, _LISTS[column.type]).value) if alike else 0
            yield Edge(name, change, allowed, feature, build_lists(count, alike))


def find_equal_lengths(columns: Mapping[str, Column]) -> dict[str, dict[str, Column]]:
    """Returns the lists that have to be as long as others, each with these others."""
    groups: dict[str, dict[str, Column]] = {}
    for name, column in columns.items():
        groups.setdefault(column.same_length_as or name, {})[name] = column
    return {
        name: {other: group[other] for other in group if other != name}
        for group in groups.values()
        for name in (group if len(group) > 1 else ())
    }


def build_lists(count: int, columns: Mapping[str, Column]) -> dict[str, tf.train.Feature]:
    """Returns lists of `count` items that the schema allows."""
    found = {}
    for name, column in columns.items():
        item: Any = "?" * max(1, column.min_length)
        if column.type != "string":
            known = (value for value in (column.min, column.max) if value is not None)
            item = next((value for value in known if value != column.stands_for_missing), 1)
        item = column.allowed[0] if column.allowed else item
        item = date_forms.EXAMPLES[column.dates] if column.dates else item
        item = item.encode() if isinstance(item, str) else item
        item = int(item) if column.type == "int64" else item
        found[name] = tf.train.Feature(**{_LISTS[column.type]: {"value": [item] * count}})
    return found


def list_list_edges(column: Column, edges: Sequence[Changed]) -> Found:
    """Yields an empty list, and the longest of the first of the `edges` that has a value."""
    yield "empty list", True, tf.train.Feature(**{_LISTS[column.type]: {}})
    kind = _LISTS[column.type]
    # Of a split where all lists are empty, there is no value that was seen.
    having = [edge for edge in edges if getattr(edge[2], kind).value]
    for change, allowed, feature in having[:1]:
        longest = tf.train.Feature()
        item = getattr(feature, kind).value[0]
        getattr(longest, kind).value.extend([item] * (column.max_items or 1))
        yield f"longest list of {change}", allowed, longest


def list_number_edges(column: Column, seen: manifest.ColumnStatistics | None) -> Found:
    """Yields the extremes that were `seen`, or else those of the rules, and a value beyond."""
    # Rules may allow what no row comes near, where terms cancel that are far larger than answers.
    least, greatest = (seen.min, seen.max) if seen else (None, None)
    least = column.min if least is None else least
    greatest = column.max if greatest is None else greatest
    if least is not None and math.isfinite(least):
        yield "least", True, build_number(column, least)
    if greatest is not None and math.isfinite(greatest):
        yield "greatest", True, build_number(column, greatest)
        yield "out of range", False, build_number(column, 2 * abs(greatest) + 1)


def build_number(column: Column, value: float) -> tf.train.Feature:
    """Returns a number, as often as the shape of its column has places."""
    if column.type == "int64":
        bounds = np.iinfo(np.int64)
        whole = min(max(int(value), int(bounds.min)), int(bounds.max))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[whole] * column.size))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value] * column.size))


def _list_text_edges(column: Column, _: Any) -> Found:
    length, anything = max(1, column.min_length), not (column.allowed or column.dates)
    yield "unseen text", anything, build_text(column, (_UNSEEN * length).encode())
    yield "empty text", column.min_length == 0 and anything, build_text(column, b"")


def build_text(column: Column, value: bytes) -> tf.train.Feature:
    """Returns a text, as often as the shape of its column has places; or all its pixels."""
    count = 1 if column.type == "uint8" else column.size
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value] * count))


def list_pixel_edges(column: Column, _: Any) -> Found:
    """Yields pixels that are all black, and all white."""
    yield "all 0", True, build_text(column, bytes(column.size))
    yield "all 255", True, build_text(column, b"\xff" * column.size)


def _list_image_edges(column: Column, _: Any) -> Found:
    yield from ()


_EDGES: Mapping[str, Callable[[Column, manifest.ColumnStatistics | None], Found]] = {
    "int64": list_number_edges,
    "float32": list_number_edges,
    "string": _list_text_edges,
    "uint8": list_pixel_edges,
    "image": _list_image_edges,
}
