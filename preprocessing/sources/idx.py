"""IDX files (`pipeline.records.idx`): one of images and, where rows have labels, one of labels per
split.

Plain files are cut into ranges of rows. A gz file can only be read from its start, so it is one
chunk, read as a stream, decompressed once and never held whole; the records do not depend on
which it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline import config, errors
from pipeline.config.splits import SplitName
from pipeline.records import idx
from pipeline.records.idx import IdxFile
from preprocessing.arrow import arrow_types
from preprocessing.sources import base

_ROLES = ("images", "labels")


@dataclasses.dataclass(frozen=True)
class IdxChunk:
    """Rows `first` to `first + rows` of a pair of files, or of images alone."""

    images: IdxFile
    labels: IdxFile | None
    first: int
    rows: int


class IdxSource(base.Source):
    """Images of unsigned bytes, and their labels if the label is among the columns."""

    def __init__(self, data: config.Data) -> None:
        super().__init__(data)
        self._image = _find_image_column(data)
        self._roles = _ROLES if data.label in data.columns else _ROLES[:1]
        for split, inputs in data.inputs.items():
            if sorted(inputs) != sorted(self._roles):
                raise errors.UsageError(
                    f"data.inputs.{split}: source idx takes {' and '.join(self._roles)}, "
                    f"got {', '.join(sorted(inputs)) or 'nothing'}"
                )

    def files(self) -> list[base.RawFile]:
        """Returns images and labels of each split."""
        return [
            base.RawFile(_build_name(split, role, inputs[role]), inputs[role])
            for split, inputs in sorted(self.data.inputs.items())
            for role in self._roles
        ]

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Reads both headers, compares them, and cuts the rows into chunks."""
        inputs = self.data.inputs[split]
        images = idx.read_header(inputs["images"], dimensions=len(self._find_shape()) + 1)
        labels = idx.read_header(inputs["labels"], dimensions=1) if "labels" in inputs else None
        self._check(images, labels)
        packed = images.compressed or (labels is not None and labels.compressed)
        at_once = images.rows if packed else _count_rows_in(images, self.sizes.chunk)
        return [
            base.Chunk(split, index, rows, IdxChunk(images, labels, first, rows))
            for index, first in enumerate(range(0, images.rows, at_once))
            for rows in [min(at_once, images.rows - first)]
        ]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields rows, counted from the start of the files."""
        part: IdxChunk = chunk.details
        headers = {self._image: part.images}
        if part.labels is not None:
            headers[self.data.label] = part.labels
        files = {column: header.path for column, header in headers.items()}
        wanted = arrow_types.arrow_schema(self.data.columns)
        name = _build_name(chunk.split, "images", part.images.path)
        with contextlib.ExitStack() as stack:
            streams = {
                column: stack.enter_context(idx.open_rows(header, part.first))
                for column, header in headers.items()
            }
            for first, count in _cut_steps(part, _count_rows_in(part.images, self.sizes.read)):
                found = {n: idx.take(streams[n], header, count) for n, header in headers.items()}
                columns = {self._image: _wrap_fixed_size(found[self._image], part.images.row_bytes)}
                if part.labels is not None:
                    codes = np.frombuffer(found[self.data.label], np.uint8)
                    columns[self.data.label] = pa.array(codes.astype(np.int64))
                batch = pa.record_batch([columns[name] for name in wanted.names], wanted)
                yield base.Rows(batch, first, files, name=name)
            if part.first + part.rows == part.images.rows:
                for column, header in headers.items():
                    idx.check_end(streams[column], header)

    def _find_shape(self) -> tuple[int, ...]:
        """The dimensions of an image in the file: the column's, without one grey channel."""
        shape = self.data.columns[self._image].shape
        return shape[:-1] if len(shape) == 3 and shape[-1] == 1 else shape

    def _check(self, images: IdxFile, labels: IdxFile | None) -> None:
        if images.shape[1:] != self._find_shape():
            raise errors.DataError(
                f"{images.path!r}: images of {_format_shape(images.shape[1:])}, "
                f"column {self._image!r} of the config has {_format_shape(self._find_shape())}"
            )
        if labels is not None and images.rows != labels.rows:
            raise errors.DataError(
                f"{images.path!r} has {images.rows} images, {labels.path!r} has "
                f"{labels.rows} labels; the counts must be equal"
            )


def _build_name(split: str, role: str, path: str) -> str:
    return f"{split}/{role}/{path.rpartition('/')[2]}"


def _find_image_column(data: config.Data) -> str:
    others = [name for name in data.columns if name != data.label]
    label = data.columns.get(data.label)
    if len(others) != 1 or data.columns[others[0]].type != "uint8":
        raise errors.UsageError(
            "data.columns: source idx gives one uint8 column of images and the label, "
            f"the config has {', '.join(others) or 'none'}"
        )
    if label is not None and (label.type != "int64" or label.shape):
        raise errors.UsageError(f"data.columns.{data.label}: source idx gives one int64 a row")
    return others[0]


def _count_rows_in(images: IdxFile, size: int) -> int:
    return max(1, size // images.row_bytes)


def _cut_steps(part: IdxChunk, rows: int) -> Iterator[tuple[int, int]]:
    for first in range(part.first, part.first + part.rows, rows):
        yield first, min(rows, part.first + part.rows - first)


def _wrap_fixed_size(data: bytes, row_bytes: int) -> pa.FixedSizeBinaryArray:
    buffers = [None, pa.py_buffer(data)]
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(row_bytes), len(data) // row_bytes, buffers
    )


def _format_shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "1"
