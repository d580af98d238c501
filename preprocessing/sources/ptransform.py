"""Rows that a Beam `PTransform` of the user's own makes: databases, queues, formats of their own.

It is built with the inputs of a split and applied at the start of the pipeline; its elements are
rows as dictionaries, or Arrow record batches or tables of them. Beam gives no order and no numbers,
so `data.key` must name the rows: everything else about a record follows from its key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from preprocessing.arrow import plain_types
from preprocessing.sources import base, files

# Rows given one by one that are worked on together.
BATCH_ROWS = 8192

Found: TypeAlias = tuple[SplitName, pa.RecordBatch]


class TransformSource(base.Source):
    """What a transform makes of the inputs of each split."""

    numbered = False

    def __init__(
        self, data: config.Data, kind: Callable[[dict[str, str]], beam.PTransform]
    ) -> None:
        super().__init__(data)
        self._kind = kind
        if not data.key:
            raise errors.UsageError(
                f"data.source: {data.source!r} is a transform, whose rows have no numbers; "
                "data.key must say which columns name a row"
            )

    def files(self) -> list[base.RawFile]:
        """Returns those inputs that are files, or patterns that fit some."""
        return [
            file
            for split in sorted(self.data.inputs)
            if all(map(_is_file, self.data.inputs[split].values()))
            for file in files.find(self.data, split)
        ]

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Returns one chunk of unknown size, which stands for all there is."""
        return [base.Chunk(split, 0)]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Is not how a transform is read: see `read_batches`."""
        raise NotImplementedError("rows of a transform come through the pipeline")

    def build_transform(self, split: SplitName) -> beam.PTransform:
        """Returns the transform for one split. Raises `UsageError` if it cannot be built."""
        try:
            return self._kind(dict(self.data.inputs[split]))
        except TypeError as error:
            raise errors.UsageError(
                f"data.source: {self.data.source!r} cannot be built with the inputs of a split, "
                f"a dict: {error}"
            ) from None


class Gather(beam.DoFn):
    """Rows and batches -> (split, batch), rows of a bundle some thousands at a time."""

    def __init__(self, split: SplitName, names: tuple[str, ...]) -> None:
        self._split, self._names = split, names
        self._rows: list[Mapping[str, Any]] = []

    def process(self, element: Mapping[str, Any] | pa.RecordBatch | pa.Table) -> Iterator[Found]:
        """Takes one element in."""
        if isinstance(element, pa.Table):
            for batch in element.combine_chunks().to_batches():
                yield self._split, batch
        elif isinstance(element, pa.RecordBatch):
            yield self._split, element
        else:
            self._rows.append(element)
            if len(self._rows) == BATCH_ROWS:
                yield self._take_gathered()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Gives what is left."""
        if self._rows:
            window = GlobalWindow()
            yield WindowedValue(self._take_gathered(), window.max_timestamp(), (window,))

    def _take_gathered(self) -> Found:
        rows, self._rows = self._rows, []
        return self._split, pa.record_batch(
            {name: _build_array([row.get(name) for row in rows]) for name in self._names}
        )


def read_batches(pipeline: beam.Pipeline, source: TransformSource) -> PCollection:
    """Applies the transform to the inputs of all splits; returns a collection of `Found`."""
    names = tuple(source.data.columns)
    parts = [
        pipeline
        | f"Own {split}" >> source.build_transform(split)
        | f"Gather {split}" >> beam.ParDo(Gather(split, names))
        for split in sorted(source.data.inputs)
    ]
    return parts | "All splits" >> beam.Flatten()


def hash_batch(batch: pa.RecordBatch) -> int:
    """Names a batch by what is in it, so that a repeated bundle writes the same files again."""
    digest = hashlib.blake2b(batch.serialize(), digest_size=6).digest()
    return int.from_bytes(digest, "big")


def build_rows(batch: pa.RecordBatch, data: config.Data) -> base.Rows:
    """Returns a batch as a source gives it. Raises `DataError` if it lacks a column."""
    names = list(data.columns)
    base.check_names(batch.schema.names, names, data.source, holder="a batch")
    arrays = [
        plain_types.to_readable(batch.column(name), column.type)
        for name, column in data.columns.items()
    ]
    return base.Rows(
        pa.record_batch(arrays, names),
        files=dict.fromkeys(names, data.source),
        numbers=np.full(len(batch), -1),
        name=data.source,
    )


def _is_file(path: str) -> bool:
    return bool(storage.glob(path)) or storage.exists(path)


def _build_array(values: list[Any]) -> pa.Array:
    """Makes values an array; where their types differ they become text, which `cast` checks."""
    plain = [value.ravel() if isinstance(value, np.ndarray) else value for value in values]
    try:
        return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if v is None else _encode_text(v) for v in plain], pa.binary())


def _encode_text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
