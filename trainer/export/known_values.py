"""The values at which features jump: boundaries, all there are in vocabularies, and of columns that
are hashed those of some rows.

A model that has moved a boundary or has it belong to the other side, or that has another word at
one place of a vocabulary, differs there and perhaps nowhere else. A row takes one value of each
column that has any, so that all of them fit in as many rows as the longest vocabulary has words.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.config import Column
from pipeline.records.feature_plan import Planned
from trainer.export import parity_edges
from trainer.export.parity_edges import Edge
from trainer.input.dataset import RecordDataset

# At most so many rows, of so many bytes in all, and so many values of all columns.
ROWS, BYTES, VALUES = 100_000, 16 << 20, 200_000
# So many rows of train, and of eval, are looked through for values of columns that are hashed.
_LOOKED_THROUGH = 2048
CHANGE = "known value"


@dataclasses.dataclass(frozen=True)
class Known:
    """Values of a column, from the rare end of a vocabulary, by size, or as they occur: those to
    compare on, and how many there are."""

    chosen: Sequence[float | str]
    total: int


def choose(source: RecordDataset) -> dict[str, Known]:
    """Returns the values by column: all, or of too many as many that lie evenly among them."""
    columns = source.transforms.serving_columns
    found = {
        name: values
        for name, jumps in _find_jumps(source.transforms.plan.features).items()
        if name in columns and (values := _list_values(columns[name], jumps))
    }
    for name, values in _find_hashed(source).items():
        found.setdefault(name, values)
    eval_split = source.manifest.splits["eval"]
    row_bytes = sum(shard.bytes for shard in eval_split.shards) / max(1, eval_split.records)
    most = min(ROWS, int(BYTES // max(1, row_bytes)))
    if sum(min(most, len(values)) for values in found.values()) > VALUES:
        most = min(most, VALUES // len(found))
    return {
        name: Known(_sample(values, max(1, most)), len(values)) for name, values in found.items()
    }


def list_remarks(source: RecordDataset) -> list[str]:
    """Returns a line for each column of whose values not all are compared, and one for those that
    are hashed."""
    hashed = ", ".join(f"`{name}`" for name in _list_hashed(source))
    of_hashed = (
        f"Of {hashed}, hashed, the export was compared on values of up to {_LOOKED_THROUGH:,} "
        "rows of train and of eval; other values may be answered differently."
    )
    return [
        f"The export was compared with `Estimator.predict` on {len(known.chosen):,} of the "
        f"{known.total:,} values of `{name}` that its features know, not on all."
        for name, known in choose(source).items()
        if len(known.chosen) < known.total
    ] + ([of_hashed] if hashed else [])


def list_edges(source: RecordDataset) -> Iterator[list[Edge]]:
    """Yields what is changed in each row: first those that the schema allows."""
    columns = source.transforms.serving_columns
    others = parity_edges.find_equal_lengths(columns)
    allowed: list[list[Edge]] = []
    forbidden: list[list[Edge]] = []
    for name, known in choose(source).items():
        alike = others.get(name, {})
        made = [_build_edge(name, columns[name], value, alike=alike) for value in known.chosen]
        allowed.append([edge for edge in made if edge.allowed])
        forbidden.append([edge for edge in made if not edge.allowed])
    for one in (allowed, forbidden):
        for row in itertools.zip_longest(*one):
            yield [edge for edge in row if edge is not None]


def _build_edge(
    name: str, column: Column, value: float | str, *, alike: Mapping[str, Column]
) -> Edge:
    if isinstance(value, str):
        allowed = not column.allowed or value in column.allowed
        feature = parity_edges.build_text(column, value.encode())
    else:
        low = column.min is None or value >= column.min
        allowed = low and (column.max is None or value <= column.max)
        feature = parity_edges.build_number(column, value)
    return Edge(name, CHANGE, allowed, feature, parity_edges.build_lists(column.size, alike))


def _list_hashed(source: RecordDataset) -> list[str]:
    """Returns the columns of which features have hashed values as they are."""
    columns = source.transforms.serving_columns
    found = {
        feature.inputs[0]: None
        for feature in source.transforms.plan.features
        if len(feature.inputs) == 1 and any(step.scatters for step in feature.steps)
    }
    return [name for name in found if name in columns]


def _find_hashed(source: RecordDataset) -> dict[str, list[float | str]]:
    """Returns the values of such columns that occur in the rows that are looked through."""
    names = _list_hashed(source)
    found: dict[str, dict[float | str, None]] = {name: {} for name in names}
    examples = (source.read_some(split, _LOOKED_THROUGH) for split in ("train", "eval"))
    for example in itertools.chain(*examples) if names else ():
        features = tf.train.Example.FromString(example).features.feature
        for name in names:
            if name in features:
                held = features[name]
                values = getattr(held, held.WhichOneof("kind") or "bytes_list").value
                found[name].update(dict.fromkeys(map(_decode, values)))
    return {name: list(values) for name, values in found.items()}


def _decode(value: bytes | int) -> float | str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _find_jumps(features: Iterable[Planned]) -> dict[str, list[float | str]]:
    """Returns where features jump, by column: of steps that get its values as they are."""
    found: dict[str, list[float | str]] = {}
    for feature in features:
        for step in feature.steps if len(feature.inputs) == 1 else ():
            if step.jumps:
                found.setdefault(feature.inputs[0], []).extend(step.jumps)
            if not step.fills_gaps and step.statistics_after() != "unchanged":
                break
    return found


def _list_values(column: Column, jumps: Iterable[float | str]) -> list[float | str]:
    if column.type == "string":
        return list(dict.fromkeys(map(str, jumps)))
    if column.type not in ("int64", "float32"):
        return []
    numbers = (x for x in jumps if not isinstance(x, str))
    return sorted({math.ceil(x) if column.type == "int64" else float(x) for x in numbers})


def _sample(values: Sequence[float | str], most: int) -> Sequence[float | str]:
    if len(values) <= most:
        return values
    return [values[n] for n in np.linspace(0, len(values) - 1, most).round().astype(int)]
