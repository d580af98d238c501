"""The rows on which an exported model is compared with the Estimator it is made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.config import Column
from pipeline.records import manifest, tfrecord
from pipeline.records.feature_plan import Planned
from pipeline.steps import date_forms
from trainer.input import epoch_order
from trainer.input.dataset import Records

# Of the eval split. Rows with one value changed come on top: a few for each column.
ROWS = 256
# Of these at most so many: in wide tables several columns are changed in a row.
CHANGED = 256
# And at most so many boundaries of a column.
BOUNDARIES = 32
_LISTS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}
_UNSEEN = "\u241a"  # a text that no vocabulary holds


@dataclasses.dataclass(frozen=True)
class Row:
    """A serialized `tf.train.Example`; if made by changing columns of another, which, the first of
    them, and how."""

    example: bytes
    columns: tuple[str, ...] = ()
    change: str = ""
    allowed: bool = True  # by the schema; what it forbids a model may refuse

    @property
    def changed(self) -> bool:
        """False for a row as it is in the records."""
        return bool(self.columns)


def rows(source: Records, count: int = ROWS) -> list[Row]:
    """Returns rows of all the eval split, then some with a value missing, unseen or extreme."""
    found = [Row(payload) for payload in _spread(source, count)]
    changed = [
        Row(
            _with(
                found[n % len(found)].example,
                {name: feature for edge in group for name, feature in edge.features.items()},
            ),
            tuple(edge.column for edge in group),
            group[0].change,
            group[0].allowed,
        )
        for n, group in enumerate(_groups(list(_edges(source)), CHANGED))
    ]
    return found + changed


def _groups(edges: Sequence[_Edge], most: int) -> list[list[_Edge]]:
    """Puts edges that are changed alike together, each column in a group once, so that there are
    at most `most` groups if there are fewer kinds of change; few edges stay by themselves."""
    if len(edges) <= most:
        return [[edge] for edge in edges]
    alike: dict[tuple[str, bool], list[_Edge]] = {}
    for edge in edges:
        alike.setdefault((edge.change, edge.allowed), []).append(edge)
    each = -(-len(edges) // max(1, most - len(alike)))
    return [
        found[start : start + each]
        for found in alike.values()
        for start in range(0, len(found), each)
    ]


def _spread(source: Records, count: int) -> Iterator[bytes]:
    blocks = source.blocks("eval")
    readable = epoch_order.readable(blocks)
    chosen = readable[:: max(1, len(readable) // count)][:count]
    each = -(-count // len(chosen))
    payloads = [
        tfrecord.read(blocks.paths[shard], int(offset), min(each, int(held)))
        for shard, offset, held in chosen
    ]
    return (payload for one in payloads for payload in one)


@dataclasses.dataclass(frozen=True)
class _Edge:
    """A column, what is done to it, whether the schema allows that, and the new feature, `None`
    removes it; `others` are those of lists that have to be as long."""

    column: str
    change: str
    allowed: bool
    feature: tf.train.Feature | None
    others: Mapping[str, tf.train.Feature] = dataclasses.field(default_factory=dict)

    @property
    def features(self) -> dict[str, tf.train.Feature | None]:
        """All that is new, by column."""
        return {**self.others, self.column: self.feature}


def _edges(source: Records) -> Iterator[_Edge]:
    statistics = source.manifest.statistics.get("train")
    columns = source.transforms.serving_columns
    jumps = _jumps(source.transforms.plan.features)
    pairs = [(name, column.same_length_as) for name, column in columns.items()]
    together = {name for pair in pairs if pair[1] is not None for name in pair}
    for name, column in columns.items():
        alike = _as_long(name, columns) if name in together else {}
        if column.missing == "allow":
            yield _Edge(name, "missing", True, None, _of_length(0, alike))
        seen = statistics.columns.get(name) if statistics else None
        edges = list(_EDGES[column.type](column, seen))
        edges += _on_boundaries(column, jumps.get(name, []))
        if column.list:
            edges += _lists(column, edges)
        for change, allowed, feature in edges:
            count = len(getattr(feature, _LISTS[column.type]).value) if alike else 0
            yield _Edge(name, change, allowed, feature, _of_length(count, alike))


def _jumps(features: Iterable[Planned]) -> dict[str, list[float]]:
    """Returns where features jump, by column: of steps that get its values as they are."""
    found: dict[str, list[float]] = {}
    for feature in features:
        for step in feature.steps if len(feature.inputs) == 1 else ():
            found.setdefault(feature.inputs[0], []).extend(step.jumps)
            if not step.fills_gaps and step.statistics_after() != "unchanged":
                break
    return found


def _on_boundaries(column: Column, jumps: Sequence[float]) -> _Found:
    """Yields a value on each boundary: a model that has moved it, or has it belong to the other
    side, differs there and perhaps nowhere else."""
    if column.type not in ("int64", "float32"):
        return
    values = sorted({math.ceil(x) if column.type == "int64" else float(x) for x in jumps})
    for number, value in enumerate(values[:: -(-len(values) // BOUNDARIES) or 1]):
        low = column.min is None or value >= column.min
        high = column.max is None or value <= column.max
        yield f"boundary {number + 1}", low and high, _number(column, value)


def _as_long(name: str, columns: Mapping[str, Column]) -> dict[str, Column]:
    """Returns the other lists that have to be as long as a column."""
    first = columns[name].same_length_as or name
    return {
        other: column
        for other, column in columns.items()
        if other != name and first in (other, column.same_length_as)
    }


def _of_length(count: int, columns: Mapping[str, Column]) -> dict[str, tf.train.Feature]:
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


def _lists(column: Column, edges: Sequence[_Changed]) -> _Found:
    yield "empty list", True, tf.train.Feature(**{_LISTS[column.type]: {}})
    kind = _LISTS[column.type]
    # Of a split where all lists are empty, there is no value that was seen.
    having = [edge for edge in edges if getattr(edge[2], kind).value]
    for change, allowed, feature in having[:1]:
        longest = tf.train.Feature()
        item = getattr(feature, kind).value[0]
        getattr(longest, kind).value.extend([item] * (column.max_items or 1))
        yield f"longest list of {change}", allowed, longest


_Changed = tuple[str, bool, tf.train.Feature]
_Found = Iterator[_Changed]


def _numbers(column: Column, seen: manifest.ColumnStatistics | None) -> _Found:
    # Rules may allow what no row comes near, where terms cancel that are far larger than answers.
    least, greatest = (seen.min, seen.max) if seen else (None, None)
    least = column.min if least is None else least
    greatest = column.max if greatest is None else greatest
    if least is not None and math.isfinite(least):
        yield "least", True, _number(column, least)
    if greatest is not None and math.isfinite(greatest):
        yield "greatest", True, _number(column, greatest)
        yield "out of range", False, _number(column, 2 * abs(greatest) + 1)


def _number(column: Column, value: float) -> tf.train.Feature:
    if column.type == "int64":
        bounds = np.iinfo(np.int64)
        whole = min(max(int(value), int(bounds.min)), int(bounds.max))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[whole] * column.size))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value] * column.size))


def _texts(column: Column, _: Any) -> _Found:
    length, anything = max(1, column.min_length), not (column.allowed or column.dates)
    yield "unseen text", anything, _bytes(column, (_UNSEEN * length).encode())
    yield "empty text", column.min_length == 0 and anything, _bytes(column, b"")


def _bytes(column: Column, value: bytes) -> tf.train.Feature:
    count = 1 if column.type == "uint8" else column.size
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value] * count))


def _pixels(column: Column, _: Any) -> _Found:
    yield "all 0", True, _bytes(column, bytes(column.size))
    yield "all 255", True, _bytes(column, b"\xff" * column.size)


def _images(column: Column, _: Any) -> _Found:
    yield from ()


_EDGES: Mapping[str, Callable[[Column, manifest.ColumnStatistics | None], _Found]] = {
    "int64": _numbers,
    "float32": _numbers,
    "string": _texts,
    "uint8": _pixels,
    "image": _images,
}


def swapped(row: Row, column: str, other: Row, *, columns: Mapping[str, Column]) -> Row:
    """Returns `row` with the value of one column as `other` has it, and with the lists among all
    `columns` that have to be as long."""
    features = tf.train.Example.FromString(other.example).features.feature
    # By [] one that is not there would be added.
    changes = {name: features.get(name) for name in (column, *_as_long(column, columns))}
    return dataclasses.replace(row, example=_with(row.example, changes))


def _with(example: bytes, changes: Mapping[str, tf.train.Feature | None]) -> bytes:
    parsed = tf.train.Example.FromString(example)
    for column, feature in changes.items():
        parsed.features.feature.pop(column, None)
        if feature is not None:
            parsed.features.feature[column].CopyFrom(feature)
    return bytes(parsed.SerializeToString(deterministic=True))
