"""TFRecord files of the user as shards of a manifest: each is read once, and never written to."""

from __future__ import annotations

from collections.abc import Callable

import google_crc32c

from pipeline import errors, storage
from pipeline.records import file_kinds, manifest, tfrecord

READ_BYTES = 8 << 20


def shard_of(
    path: str,
    block_records: int,
    progress: Callable[[int], None] = lambda count: None,
    *,
    read_bytes: int = READ_BYTES,
) -> manifest.Shard:
    """Returns a file as a shard. Both checksums of each of its records are compared.

    `progress` is called with numbers of bytes that were read. Reads `read_bytes` at a time, and
    holds about 20 MB in memory, or twice the longest record. Raises `DataError` naming the file,
    and its first damaged record or what it is compressed with; `OSError` for what cannot be read.
    """
    checksum = google_crc32c.Checksum()
    blocks: list[int] = []
    count, at, rest = 0, 0, b""  # records, bytes of these, and what follows them
    size = storage.size(path)
    with storage.open_file(path) as file:
        while chunk := file.read(
            max(read_bytes, min(_count_missing_bytes(rest), size - at - len(rest)))
        ):
            if not at and not rest:
                _refuse_compressed(path, chunk)
            checksum.update(chunk)
            content = rest + chunk
            ends = _ends(path, content, count=count, offset=at)
            starts = [0, *ends]
            blocks += [at + start for start in starts[:-1][-count % block_records :: block_records]]
            count, at, rest = count + len(ends), at + starts[-1], content[starts[-1] :]
            progress(len(chunk))
    if rest:
        raise _build_damage_error(
            path, count, at, broken=tfrecord.CorruptRecord("truncated, the file ends within it")
        )
    crc32c = checksum.hexdigest().decode()
    return manifest.Shard(path=path, records=count, bytes=at, crc32c=crc32c, blocks=tuple(blocks))


def _ends(path: str, content: bytes, *, count: int, offset: int) -> list[int]:
    ends: list[int] = []
    try:
        # What is before a damaged record is in the list by then.
        ends.extend(tfrecord.ends(content))
    except tfrecord.CorruptRecord as broken:
        before = ends[-1] if ends else 0
        raise _build_damage_error(path, count + len(ends), offset + before, broken=broken) from None
    return ends


def _count_missing_bytes(rest: bytes) -> int:
    """Returns how many bytes a record lacks of which the first are there; 0 if they do not say."""
    if len(rest) < tfrecord.HEADER_BYTES:
        return 0
    length = tfrecord.length_in(rest[: tfrecord.HEADER_BYTES])
    return tfrecord.HEADER_BYTES + length + tfrecord.FOOTER_BYTES - len(rest)


def _refuse_compressed(path: str, content: bytes) -> None:
    kind = file_kinds.compression(content[: tfrecord.HEADER_BYTES])
    if kind:
        raise errors.DataError(
            f"{path!r}: compressed with {kind}, which can only be read from its start; training "
            "reads from any block; unpack it, or take data.in_place away: records are made of it"
        )


def _build_damage_error(
    path: str, count: int, offset: int, *, broken: tfrecord.CorruptRecord
) -> errors.DataError:
    return errors.DataError(
        f"{path!r}: record {count + 1:,}, at byte {offset:,}: {broken}. Restore the file, or take "
        "it out of data.inputs"
    )


def describe_change(before: manifest.Manifest, now: manifest.Manifest) -> str:
    """Says in a sentence which file of train is not what it was, if they were used in place; else
    returns an empty text."""
    old, new = ({s.path: s for s in one.splits["train"].shards} for one in (before, now))
    for path, shard in old.items():
        if shard.is_in_place and new.get(path) != shard:
            return f"{path!r} {'was written to' if path in new else 'is gone'}"
    added = next((path for path in new if path not in old and new[path].is_in_place), None)
    return f"{added!r} is new" if added else ""


def check_statistics(folder: str, contents: manifest.Manifest, split: str = "train") -> None:
    """Raises `DataError` if the records in `folder` have no statistics of a split, with how to get
    them."""
    if split in contents.statistics:
        return
    shards = (shard for split in contents.splits.values() for shard in split.shards)
    if any(shard.is_in_place for shard in shards):
        raise errors.DataError(
            f"{folder!r}: has no statistics: the files are used in place, and their values were "
            "not read. Run make preprocess SET=data.in_place=values"
        )
    raise errors.DataError(f"{folder!r}: has no statistics. Run make preprocess.")
