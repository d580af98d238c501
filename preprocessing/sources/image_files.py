"""Image files, a row each, wherever they lie: what predictions are asked for.

A folder of classes is `image_folder`; here a label is only what the folder above a file may say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from preprocessing.arrow import image_values
from preprocessing.sources import base, files
from preprocessing.sources.image_folder import CHUNK_FILES, PATH


@dataclasses.dataclass(frozen=True)
class _Picture:
    file: base.RawFile
    value: bytes


class PicturesSource(base.Source):
    """PNG and JPEG files in the order of their paths.

    A column of type `image` gets their bytes, one of `uint8` their pixels.
    """

    def __init__(self, data: config.Data) -> None:
        super().__init__(data)
        found = [name for name, column in data.columns.items() if column.is_image]
        others = set(data.columns) - {*found, PATH, data.label}
        if len(found) != 1 or others:
            raise errors.UsageError(
                "images are for a model that takes one column of type image or uint8; this takes "
                f"{', '.join(name for name in data.columns if name != data.label)}"
            )
        self._image = found[0]

    def files(self) -> list[base.RawFile]:
        """Returns all images."""
        return [file for split in sorted(self.data.inputs) for file in self._find(split)]

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Deals the files out."""
        found = self._find(split)
        starts = range(0, len(found), CHUNK_FILES)
        parts = [tuple(found[start : start + CHUNK_FILES]) for start in starts]
        return [base.Chunk(split, i, len(part), part) for i, part in enumerate(parts)]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields images, as many at a time as `sizes.read` holds; letters for those whose pixels
        are not what the column holds."""
        ready: list[_Picture] = []
        letters: list[base.Letter] = []
        size = 0
        for file in chunk.details:
            with files.translate_errors(file.path), storage.open_file(file.path) as stream:
                content = stream.read()
            try:
                ready.append(_Picture(file, self._decode_value(content)))
            except ValueError as error:
                problem = str(error)
                problem = problem if problem.startswith("is ") else f"is not an image: {problem}"
                letters.append(base.Letter(file.path, 1, self._image, "image", None, problem))
            size += len(content)
            if size >= self.sizes.read:
                yield self._build_rows(ready, letters)
                ready, letters, size = [], [], 0
        if ready or letters:
            yield self._build_rows(ready, letters)

    def _decode_value(self, content: bytes) -> bytes:
        column = self.data.columns[self._image]
        return (
            content
            if column.type == "image"
            else image_values.extract_pixels(content, column.shape)
        )

    def _find(self, split: SplitName) -> list[base.RawFile]:
        return files.find(self.data, split)

    def _build_rows(self, ready: Sequence[_Picture], letters: Sequence[base.Letter]) -> base.Rows:
        paths = [picture.file.path for picture in ready]
        binary = pa.binary()
        values = {
            self._image: pa.array([picture.value for picture in ready], binary),
            self.data.label: pa.array([find_folder(path) for path in paths], pa.string()),
            PATH: pa.array(paths, pa.string()),
        }
        names = list(self.data.columns)
        return base.Rows(
            pa.record_batch([values[name] for name in names], names),
            numbers=np.ones(len(ready), np.int64),
            each=tuple(picture.file for picture in ready),
            letters=tuple(letters),
        )


def find_folder(path: str) -> str:
    """Returns the name of the folder a file lies in."""
    return storage.parent(path).rpartition("/")[2]
