"""Folders of images, one folder a class: `<folder>/<class>/<name>.png`, or JPEG.

Every file in the folder of a class is a row: its bytes as they are, the name of the folder as its
label, and, if the config has such a column, its path below the folder. Hidden files are skipped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from preprocessing.sources import base, files

# Files that one worker reads in a row.
CHUNK_FILES = 512
PATH = "path"
ENDINGS = (".png", ".jpg", ".jpeg")


@dataclasses.dataclass(frozen=True)
class Picture:
    """One file; `below` is its path under the folder of the classes."""

    file: base.RawFile
    below: str


class ImageFolderSource(base.Source):
    """Images, in the order of their classes and names."""

    def __init__(self, data: config.Data) -> None:
        super().__init__(data)
        kinds = {name: column.type for name, column in data.columns.items()}
        images = [name for name, kind in kinds.items() if kind == "image"]
        known = {*images, data.label, PATH}
        if len(images) != 1 or kinds[data.label] != "string" or set(kinds) - known:
            raise errors.UsageError(
                "data.columns: source image_folder gives one column of type image, the label of "
                f"type string and, if wanted, {PATH!r} of type string; the config has "
                + ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
            )
        self._image = images[0]

    def files(self) -> list[base.RawFile]:
        """Returns all images of each split."""
        return [found.file for split in sorted(self.data.inputs) for found in self._find(split)]

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Deals the files out. Raises `DataError` if there is no class or an image is in none."""
        found = self._find(split)
        starts = range(0, len(found), CHUNK_FILES)
        parts = [tuple(found[start : start + CHUNK_FILES]) for start in starts]
        return [base.Chunk(split, i, len(part), part) for i, part in enumerate(parts)]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields images, as many at a time as `sizes.read` holds."""
        ready: list[tuple[Picture, bytes]] = []
        size = 0
        for picture in chunk.details:
            with (
                files.translate_errors(picture.file.path),
                storage.open_file(picture.file.path) as file,
            ):
                content = file.read()
            ready.append((picture, content))
            size += len(content)
            if size >= self.sizes.read:
                yield self._build_rows(ready)
                ready, size = [], 0
        if ready:
            yield self._build_rows(ready)

    def _find(self, split: SplitName) -> list[Picture]:
        found = []
        for role, folder in sorted(self.data.inputs[split].items()):
            top = folder.rstrip("/")
            for path in storage.glob(f"{top}/*"):
                if path.lower().endswith(ENDINGS):
                    raise errors.DataError(
                        f"{path!r}: is in no class; images lie in {top}/<class>/"
                    )
            below = [path[len(top) + 1 :] for path in storage.glob(f"{top}/*/*")]
            shown = sorted(name for name in below if "/." not in f"/{name}")
            if not shown:
                raise errors.DataError(f"{folder!r}: no images; they are looked for in <class>/")
            found += [
                Picture(base.RawFile(f"{split}/{role}/{name}", f"{top}/{name}"), name)
                for name in shown
            ]
        return found

    def _build_rows(self, ready: Sequence[tuple[Picture, bytes]]) -> base.Rows:
        pictures = [picture for picture, _ in ready]
        values = {
            self._image: pa.array([content for _, content in ready], pa.binary()),
            self.data.label: pa.array([p.below.partition("/")[0] for p in pictures]),
            PATH: pa.array([p.below for p in pictures]),
        }
        names = list(self.data.columns)
        return base.Rows(
            pa.record_batch([values[name] for name in names], names),
            numbers=np.ones(len(ready), np.int64),
            each=tuple(p.file for p in pictures),
        )
