"""`manifest.json`: the one object that says what the records are, written last and atomically.

Readers take shards from it and never glob, so a partial or doubled set cannot be read. It holds
no time, and no absolute path but of files that are used in place: equal input, config and seed give
an equal manifest, and its hash names the data a model was trained on.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import gc
import hashlib
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pydantic

from pipeline import config, errors, sections, storage
from pipeline.storage import strict_json

FILE_NAME = "manifest.json"
VERSION = 1
# What this process has read and still uses, by hash.
_in_use: weakref.WeakValueDictionary[str, Manifest] = weakref.WeakValueDictionary()
# What it has read last: a command reads one to look at it, and again to work with it.
_newest: Manifest | None = None


class SourceFile(sections.Stored):
    """One raw file that went in. `sha256` is of the bytes as they lie on disk."""

    name: str
    bytes: int
    sha256: str


class Shard(sections.Stored):
    """One TFRecord file.

    `path` is relative to the manifest's folder, or absolute: a file of the user's own, which is
    never written to, moved or removed. `crc32c` that of the whole file (the checksum
    Cloud Storage keeps of every object), `blocks` the byte offset at which each block of
    `block_records` records starts; the last block may be short.
    """

    path: str
    records: int
    bytes: int
    crc32c: str
    blocks: tuple[int, ...]

    @property
    def is_in_place(self) -> bool:
        """True for a file of the user's own."""
        return storage.is_remote(self.path) or self.path.startswith("/")

    def ranges(self) -> list[tuple[int, int]]:
        """Returns the bytes of each block: from, to."""
        return list(itertools.pairwise((*self.blocks, self.bytes)))

    def records_in(self, block: int, block_records: int) -> int:
        """Returns how many records a block has; the last one has what is left."""
        return min(block_records, self.records - block * block_records)


class Split(sections.Stored):
    """The shards of one split, in order."""

    records: int
    shards: tuple[Shard, ...]


class LeftOut(sections.Stored):
    """A shard that was listed once, and was found damaged."""

    split: str
    path: str
    records: int


class Sampled(sections.Stored):
    """Of the rows of train with one `value`, a share is kept; so many were `dropped`."""

    column: str
    value: int | float | str
    keep: float
    dropped: int

    def describe(self, *, sensitive: bool) -> str:
        """Returns a sentence for people, without a value that is `sensitive`."""
        rows = "one value" if sensitive else str(self.value)
        share = format(decimal.Decimal(f"{100 * self.keep:g}"), "f")
        return (
            f"data.sample keeps {share} % of the rows of train with {rows} in {self.column}; "
            f"{self.dropped:,} were left out."
        )


class Histogram(sections.Stored):
    """Numbers of values by equally wide bins."""

    low: float
    high: float
    counts: tuple[int, ...]


class ColumnStatistics(sections.Stored):
    """One column of one split. Of a column with a shape, and of a list, all values of all rows.

    `count` values are there; as many rows are `missing` one. `lengths` are those of the lists that
    are there. Moments, extremes and quantiles are of
    those that are finite: mean and variance (`ddof=0`) correctly rounded, `quantiles` at 0, 1, ...
    100 percent, each at most 2**-`quantile_bits` of itself too near to zero (exact with 52).
    `histogram` is how many lie in each of equally wide bins from its `low` to its `high`, which all
    splits of a column share; counted, not estimated, but for that rounding. `vocabulary` has values
    and counts, the most frequent first, of a label of train counted before `data.sample`;
    `distinct` is how many there are in all, if that was counted.
    """

    count: int
    missing: int = 0
    not_finite: int = 0
    mean: float | None = None
    variance: float | None = None
    min: int | float | None = None
    max: int | float | None = None
    quantiles: tuple[float, ...] | None = None
    # None is 10, in manifests of earlier versions.
    quantile_bits: int | None = None
    # None in manifests of earlier versions.
    histogram: Histogram | None = None
    distinct: int | None = None
    vocabulary: tuple[tuple[int | float | str, int], ...] | None = None
    lengths: ColumnStatistics | None = None

    def rows(self, column: config.Column) -> int:
        """Returns how many rows have a value of this `column`."""
        return self.count // column.size if self.lengths is None else self.lengths.count


class Statistics(sections.Stored):
    """One split. `class_weights` are by value of the label, so that all classes weigh the same."""

    columns: dict[str, ColumnStatistics]
    class_weights: tuple[tuple[int | str, float], ...] | None = None


class Manifest(sections.Stored):
    """What preprocessing made: schema, splits and where they came from."""

    version: int = VERSION
    # A hash of the data section and the raw files; equal fingerprints need no second run.
    fingerprint: str
    # A hash of the data section alone; `None` in records of earlier versions.
    settings: str | None = None
    columns: dict[str, config.Column]
    label: str
    # The columns that identify a row; `None` without, and in records of earlier versions.
    key: tuple[str, ...] | None = None
    block_records: int
    sources: tuple[SourceFile, ...]
    splits: dict[str, Split]
    # By split; transforms use those of train, the others are for comparison.
    statistics: dict[str, Statistics] = pydantic.Field(default={})
    # What a repair has taken from the splits; statistics still count these records.
    left_out: tuple[LeftOut, ...] | None = None
    # What `data.sample` has left out of train; statistics do not count these rows.
    sampled: Sampled | None = None

    @pydantic.field_validator("columns", mode="before")
    @classmethod
    def _restore_floats(cls, found: Any) -> Any:
        # A text column may have the text "NaN" as its default.
        if not isinstance(found, dict):
            return found
        floats = {
            name: strict_json.restore_numbers(column)
            for name, column in found.items()
            if isinstance(column, dict) and column.get("type") == "float32"
        }
        return {**found, **floats}

    @functools.cached_property
    def sha256(self) -> str:
        """Names this exact set of records; goes into `run.json` and every export."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def model_copy(self, **how: Any) -> Manifest:
        """Returns a copy, which does not know the hash of the original."""
        made = super().model_copy(**how)
        made.__dict__.pop("sha256", None)
        return made

    def to_json(self) -> str:
        """Returns the manifest as it is stored."""
        return _format_json(self.model_dump(mode="json", exclude_none=True)) + "\n"

    def split(self, name: str) -> Split:
        """Returns a split. Raises `DataError` if there is none or it has no records."""
        found = self.splits.get(name)
        if found is None or found.records == 0:
            having = ", ".join(n for n, s in self.splits.items() if s.records) or "none"
            raise errors.DataError(
                f"split {name!r} has no records; those with records: {having}. Change data.split "
                "or data.inputs so that rows go there"
            )
        return found


def _format_json(value: Any, margin: str = "") -> str:
    """Returns JSON with what holds objects over several lines, and all else on one."""
    inner = margin + " "
    if isinstance(value, dict) and _hold_objects(value.values()):
        items = [
            f"{strict_json.dumps(key)}: {_format_json(item, inner)}" for key, item in value.items()
        ]
        return f"{{\n{inner}" + f",\n{inner}".join(items) + f"\n{margin}}}"
    if isinstance(value, list) and _hold_objects(value):
        items = [_format_json(item, inner) for item in value]
        return f"[\n{inner}" + f",\n{inner}".join(items) + f"\n{margin}]"
    return strict_json.dumps(value)


def _hold_objects(values: Iterable[Any]) -> bool:
    """Tells if any of the values is an object, or one in lists of any depth."""
    # By types, all of one depth at once: manifests of wide tables have millions of numbers.
    while (types := set(map(type, values))) and dict not in types and list in types:
        values = list(itertools.chain.from_iterable(x for x in values if type(x) is list))
    return dict in types


def path_in(folder: str) -> str:
    """Returns where the manifest of a records folder lies."""
    return storage.join(folder, FILE_NAME)


def read(folder: str) -> Manifest:
    """Reads the manifest of a records folder. Raises `DataError` if it is absent or unusable.

    Returns the same object for the same content as long as it is in use, or is the newest that was
    read: to read that of 10,000 columns again takes a second.
    """
    global _newest
    path = path_in(folder)
    if not storage.exists(path):
        raise errors.DataError(
            f"{path!r}: no manifest, so the records are absent or unfinished. Run make preprocess."
        )
    try:
        text = storage.read_text(path)
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        if (known := _in_use.get(sha256)) is not None:
            _newest = known
            return known
        with _pause_garbage_collection():
            manifest = Manifest.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise errors.DataError(
            f"{path!r}: not a manifest of ours ({place or 'whole file'}: {first['msg']}). "
            "Run make preprocess."
        ) from None
    if manifest.version != VERSION:
        raise errors.DataError(
            f"{path!r}: version {manifest.version}, this code reads {VERSION}. Run make preprocess."
        )
    _check_counts(path, manifest)
    # As `write` has put it there: of a wide table to make it again takes seconds.
    manifest.__dict__["sha256"] = sha256
    _in_use[sha256] = _newest = manifest
    return manifest


@contextlib.contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Looks for no garbage meanwhile: of a wide table that takes as long as all else, and finds
    none."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _check_counts(path: str, manifest: Manifest) -> None:
    """Refuses a manifest whose own numbers contradict each other: readers go by them."""
    paths: set[str] = set()
    for name, split in manifest.splits.items():
        for shard in split.shards:
            starts = (*shard.blocks, shard.bytes)
            blocks = -(-shard.records // manifest.block_records)
            rising = all(a < b for a, b in itertools.pairwise(starts))
            fits = shard.blocks[:1] == (0,) if shard.records else shard.bytes == 0
            if len(shard.blocks) != blocks or not rising or not fits:
                raise errors.DataError(
                    f"{path!r}: shard {shard.path!r}: {shard.records} records in blocks of "
                    f"{manifest.block_records} do not lie at {_format_blocks(shard.blocks)} of "
                    f"{shard.bytes} bytes. Run make preprocess."
                )
            if shard.path in paths:
                raise errors.DataError(
                    f"{path!r}: lists shard {shard.path!r} twice. Run make preprocess."
                )
            paths.add(shard.path)
        counted = sum(shard.records for shard in split.shards)
        if split.records != counted:
            raise errors.DataError(
                f"{path!r}: split {name!r} has {split.records} records, its shards {counted}. "
                "Run make preprocess."
            )


def _format_blocks(blocks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, blocks[:4]))
    return f"{len(blocks)} offsets ({shown}{', ...' if len(blocks) > 4 else ''})"


def write(folder: str, manifest: Manifest, *, new: bool = False) -> None:
    """Publishes the records in `folder`: before this call they do not exist for any reader.

    Raises `RetryableError` if they should be `new`, and others have been published since the old
    ones were withdrawn.
    """
    try:
        storage.write_text(path_in(folder), manifest.to_json(), new=new)
    except FileExistsError:
        raise errors.RetryableError(
            f"{path_in(folder)!r}: another run has published other records meanwhile. Let one "
            "finish, then run this one again"
        ) from None


def check_schema(manifest: Manifest, data: config.Data, folder: str) -> None:
    """Refuses records that were made for other columns than the config declares."""
    found, wanted = _compute_digests(manifest.columns), _compute_digests(data.columns)
    if found != wanted or manifest.label != data.label:
        differ = sorted(
            name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
        ) or [f"label {manifest.label!r} is now {data.label!r}"]
        raise errors.DataError(
            f"{path_in(folder)!r}: made with schema {config.digest(found)[:12]}, the config has "
            f"{config.digest(wanted)[:12]} "
            f"(differs in {', '.join(differ)}). Run make preprocess."
        )


def has_columns(manifest: Manifest, data: config.Data) -> bool:
    """Tells if records have the columns that the config declares."""
    return _compute_digests(manifest.columns) == _compute_digests(data.columns)


def _compute_digests(columns: Mapping[str, config.Column]) -> dict[str, str]:
    # A default of NaN is not equal to itself.
    return {name: config.digest(column) for name, column in columns.items()}
