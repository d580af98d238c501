"""The rows on which an exported model is compared with the Estimator it is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from pipeline.config import Column
from trainer.export import known_values, parity_edges
from trainer.export.parity_edges import Edge
from trainer.input.dataset import RecordDataset

# Of the eval split. Rows with one value changed come on top: a few for each column.
ROWS = 256
# Of these at most so many: in wide tables several columns are changed in a row.
CHANGED = 256


@dataclasses.dataclass(frozen=True)
class ParityRow:
    """A serialized `tf.train.Example`; if made by changing columns of another, which, the first of
    them, and how."""

    example: bytes
    columns: tuple[str, ...] = ()
    change: str = ""
    allowed: bool = True  # by the schema; what it forbids a model may refuse
    # One of many, last of all, that hold values features know. Rounding is not measured with them.
    known: bool = False

    @property
    def changed(self) -> bool:
        """False for a row as it is in the records."""
        return bool(self.columns)

    def change_of(self, column: str) -> str:
        """Returns how one of its columns was changed; of a known value, which that is."""
        if not self.known:
            return self.change
        feature = tf.train.Example.FromString(self.example).features.feature[column]
        value = getattr(feature, feature.WhichOneof("kind")).value[0]
        return f"{self.change} {value.decode() if isinstance(value, bytes) else value!r}"


def build_rows(source: RecordDataset, count: int = ROWS) -> list[ParityRow]:
    """Returns rows of all the eval split, then some with a value missing, unseen or extreme, then
    those with values that features know."""
    found = [ParityRow(payload) for payload in source.read_some("eval", count)]
    changed = [
        _change_row(
            found[n % len(found)],
            group,
            {name: feature for edge in group for name, feature in edge.features.items()},
        )
        for n, group in enumerate(group_edges(list(parity_edges.list_edges(source)), CHANGED))
    ]
    for n, group in enumerate(known_values.list_edges(source)):
        # Lists that are as long as each other all have one item here.
        features = {name: feature for edge in group for name, feature in edge.others.items()}
        features |= {edge.column: edge.feature for edge in group}
        row = _change_row(found[n % len(found)], group, features)
        changed.append(dataclasses.replace(row, known=True))
    return found + changed


def _change_row(
    row: ParityRow, group: Sequence[Edge], features: Mapping[str, tf.train.Feature | None]
) -> ParityRow:
    columns, first = tuple(edge.column for edge in group), group[0]
    return ParityRow(_replace_features(row.example, features), columns, first.change, first.allowed)


def group_edges(edges: Sequence[Edge], most: int) -> list[list[Edge]]:
    """Puts edges that are changed alike together, each column in a group once, so that there are
    at most `most` groups if there are fewer kinds of change; few edges stay by themselves."""
    if len(edges) <= most:
        return [[edge] for edge in edges]
    alike: dict[tuple[str, bool], list[Edge]] = {}
    for edge in edges:
        alike.setdefault((edge.change, edge.allowed), []).append(edge)
    each = -(-len(edges) // max(1, most - len(alike)))
    return [
        found[start : start + each]
        for found in alike.values()
        for start in range(0, len(found), each)
    ]


def swap_column(
    row: ParityRow, column: str, other: ParityRow, *, columns: Mapping[str, Column]
) -> ParityRow:
    """Returns `row` with the value of one column as `other` has it, and with the lists among all
    `columns` that have to be as long."""
    features = tf.train.Example.FromString(other.example).features.feature
    alike = parity_edges.find_equal_lengths(columns).get(column, {})
    # By [] one that is not there would be added.
    changes = {name: features.get(name) for name in (column, *alike)}
    return dataclasses.replace(row, example=_replace_features(row.example, changes))


def _replace_features(example: bytes, changes: Mapping[str, tf.train.Feature | None]) -> bytes:
    parsed = tf.train.Example.FromString(example)
    for column, feature in changes.items():
        parsed.features.feature.pop(column, None)
        if feature is not None:
            parsed.features.feature[column].CopyFrom(feature)
    return bytes(parsed.SerializeToString(deterministic=True))
