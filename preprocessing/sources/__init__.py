"""Chooses the kind of raw data: one of ours by name, or a class of the user's own.

The table of ours is `pipeline.source_table`.

- Formats, one module each: `csv`, `jsonl`, `parquet`, `orc`, `avro`, `tfrecord`, `tfds`, `idx`,
  `image_folder`; `in_place` for TFRecords that are not copied, `ptransform` for a user's own.
- What they share: `base` (the interface), `files`, `keys`, `partitions`, `together`.
- Parts of one format: `csv_lines`, `csv_numbers`, `json_layout`, `json_types`,
  `image_files`.
- Others: `lakes` refuses tables of Delta and the like; `download` and `generate` bring raw data;
  `quiet_imports`.
"""

from __future__ import annotations

import sys

from pipeline import config, errors, packages
from pipeline.source_table import SOURCES
from preprocessing.sources import partitions
from preprocessing.sources.base import SIZES, Sizes, Source
from preprocessing.sources.quiet_imports import silence_imports


def choose(data: config.Data, sizes: Sizes = SIZES) -> Source:
    """Returns the source that `data.source` names, ready to plan and read by `sizes`.

    It is a key of `SOURCES`, or `package.module:Class` of a `Source` or a Beam `PTransform` (see
    docs/sources.md). Raises `UsageError` for anything else.
    """
    name = data.source
    kind = SOURCES.get(name)
    module_name, colon, attribute = (kind.reader if kind else name).partition(":")
    if not colon:
        raise errors.UsageError(
            f"data.source: {name!r} is not one of {', '.join(sorted(SOURCES))}"
            f"{errors.suggest(name, SOURCES)}, nor package.module:Class of your own"
        )
    try:
        with silence_imports():  # a module of one's own imports Beam
            found = getattr(packages.import_module(module_name, attribute), attribute)
    except (ImportError, AttributeError) as error:
        raise errors.UsageError(f"data.source: cannot load {name!r}: {error}") from None
    if _is_transform(found):
        from preprocessing.sources.ptransform import TransformSource

        return TransformSource(data, found)
    if not (isinstance(found, type) and issubclass(found, Source)):
        raise errors.UsageError(
            f"data.source: {name!r} is a subclass of neither apache_beam.PTransform nor "
            "preprocessing.sources.base.Source"
        )

    def make(data: config.Data) -> Source:
        source: Source = found(data)
        source.sizes = sizes
        return source

    return partitions.wrap(make, data) if kind and kind.in_folders else make(data)


def _is_transform(found: object) -> bool:
    """Tells what needs Beam; nothing does if Beam has not been imported."""
    beam = sys.modules.get("apache_beam")
    return beam is not None and isinstance(found, type) and issubclass(found, beam.PTransform)
