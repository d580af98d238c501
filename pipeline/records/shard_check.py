"""Whether the shards of a manifest are there, and as they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import google_crc32c

from pipeline import errors, storage
from pipeline.records import verified
from pipeline.records.manifest import Manifest, Shard
from pipeline.storage import patience

_CHUNK = 8 << 20


def verify(
    folder: str,
    records: Manifest,
    *,
    contents: bool,
    progress: Callable[[int], None] | None = None,
    known: verified.Verified | None = None,
) -> None:
    """Checks that every shard is there and as it was written.

    With `contents` the CRC-32C of each file is compared: the one that gs:// keeps; of other files
    that of the bytes, unless it is `known`. Otherwise only lengths are. `progress` is called with
    numbers of bytes that were checked. Raises `DataError` naming the first shard that is not as
    it was written, and what to do; `RetryableError` if one cannot be read now.
    """
    for what in damages(folder, records, contents=contents, progress=progress, known=known):
        raise errors.DataError(f"{what}. {ways_out(folder)}")


def ways_out(folder: str) -> str:
    """Returns what can be done about shards that are not as they were written."""
    return (
        "Restore it; or make the records again: make preprocess FORCE=1; or train without what is "
        "damaged: make train SET=data.on_corrupt=skip_block, or for good make verify "
        f"RECORDS={folder} REPAIR=1"
    )


def damages(
    folder: str,
    records: Manifest,
    *,
    contents: bool,
    progress: Callable[[int], None] | None = None,
    known: verified.Verified | None = None,
) -> Iterator[str]:
    """Yields what is wrong with each shard that is not as it was written; see `verify`."""
    shards = [shard for split in records.splits.values() for shard in split.shards]
    found = storage.describe([storage.join(folder, shard.path) for shard in shards])
    for shard, details in zip(shards, found, strict=True):
        what = _damage(folder, shard, details)
        if what is None and contents and details is not None:
            what = _find_alteration(
                folder, shard, details, known=known, progress=progress or (lambda count: None)
            )
        if what is not None:
            yield what


def _damage(folder: str, shard: Shard, details: storage.Details | None) -> str | None:
    path = storage.join(folder, shard.path)
    if details is None:
        return f"shard {path!r}: is missing"
    if details.size != shard.bytes:
        return f"shard {path!r}: {details.size} bytes, the manifest says {shard.bytes}"
    return None


def _find_alteration(
    folder: str,
    shard: Shard,
    details: storage.Details,
    *,
    known: verified.Verified | None,
    progress: Callable[[int], None],
) -> str | None:
    path = storage.join(folder, shard.path)
    found = details.crc32c
    if known is not None and known.knows(shard.path, details.version, shard.crc32c):
        found = shard.crc32c
    if found is None:
        try:
            found = patience.read_patiently(path, lambda: checksum_of(path, progress))
        except FileNotFoundError:
            return f"shard {path!r}: is missing"
    else:
        progress(shard.bytes)
    if found != shard.crc32c:
        return f"shard {path!r}: CRC-32C {found}, the manifest says {shard.crc32c}: it was altered"
    if known is not None and details.crc32c is None:
        known.add(shard.path, details.version, found)
    return None


def checksum_of(path: str, progress: Callable[[int], None]) -> str:
    """Returns the CRC-32C of a file as the manifest writes it; calls `progress` with bytes read."""
    checksum = google_crc32c.Checksum()
    with storage.open_file(path) as file:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
            progress(len(chunk))
    return str(checksum.hexdigest(), "ascii")
