"""TFRecord files that are used where they lie: each is a chunk, and a shard as it is."""

from __future__ import annotations

import os

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from preprocessing.sources import base, files
from preprocessing.sources.tfrecord import TfrecordChunk, TfrecordSource

# So many of the smallest files at most are scanned together: to open one takes a while on gs://.
_TOGETHER = 256


class InPlaceSource(TfrecordSource):
    """Plain TFRecord files. `values` is why their values are read too, empty if they are not."""

    def __init__(self, data: config.Data, values: str = "") -> None:
        super().__init__(data)
        self._values = values

    def files(self) -> list[base.RawFile]:
        """Returns the files of each split, by the order of their names. Raises `DataError` for one
        that is there twice."""
        found = super().files()
        seen: dict[str, base.RawFile] = {}
        for file in found:
            here = file.path if storage.is_remote(file.path) else os.path.realpath(file.path)
            if (before := seen.setdefault(here, file)) is not file:
                _refuse_twice(before, file)
        return found

    def find(self, split: SplitName) -> list[base.RawFile]:
        """Returns the files of one split, under their whole paths."""
        found = [storage.make_absolute(file.path) for file in super().find(split)]
        for path in found:
            if not storage.is_remote(path) and os.path.isdir(path):
                raise errors.DataError(
                    f"{path!r}: is a folder; name the files in it, such as {path}/*.tfrecord"
                )
        return [base.RawFile(f"{split}/{path}", path) for path in found]

    def hash_changes(self) -> str:
        """Tells scans that read values from those that do not."""
        return "values" if self._values else ""

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Makes a chunk of each file. Raises `DataError` for one that is not there."""
        chunks = []
        for index, file in enumerate(self.find(split)):
            with files.translate_errors(file.path):
                size = storage.size(file.path)
            part = TfrecordChunk(file, bytes=size)
            weight = max(size, self.read_bytes // _TOGETHER)
            chunks.append(base.Chunk(split, index, details=part, bytes=weight))
        return chunks


def find_split(file: base.RawFile) -> str:
    """Returns the split whose inputs name a file."""
    return file.name.partition("/")[0]


def _refuse_twice(first: base.RawFile, second: base.RawFile) -> None:
    one, other = sorted((find_split(first), find_split(second)))
    if one == other:
        raise errors.DataError(
            f"{second.path!r}: named twice in data.inputs.{one}; name each file once"
        )
    raise errors.DataError(
        f"{second.path!r}: in data.inputs.{one} and in data.inputs.{other}: the model would be "
        "evaluated on records it was trained on; give each split files of its own"
    )
