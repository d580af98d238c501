"""Walks shards record by record and says what is damaged, and where.

The manifest says where each block begins and how many records it has, so each block is checked by
itself: damage in one hides nothing of those behind it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import google_crc32c

from pipeline import storage
from pipeline.records import file_kinds, manifest, tfrecord, verified
from pipeline.storage import patience

# Takes the payloads of one block. Returns the index of the first bad one and why, or None.
Check = Callable[[Sequence[bytes]], tuple[int, str] | None]

_CHUNK = 8 << 20


@dataclasses.dataclass(frozen=True)
class Damage:
    """One thing that is wrong: in a block of the shard, at a record; or with the shard at all.

    `record` and `block` are numbers in the shard, from 0; `offset` is in bytes from its start.
    """

    what: str
    block: int | None = None
    record: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        if self.block is None:
            return self.what
        return f"block {self.block}, byte {self.offset}, record {self.record}: {self.what}"


@dataclasses.dataclass(frozen=True)
class Walked:
    """What was found of one shard.

    `bad` are the blocks that cannot be read as they were written: all, if it is unknown which.
    `found` is the length and the CRC-32C of the file that is there.
    """

    split: str
    path: str
    shard: manifest.Shard
    damages: tuple[Damage, ...] = ()
    bad: frozenset[int] = frozenset()
    found: tuple[int, str] | None = None

    @property
    def intact(self) -> bool:
        """True if the file is what the manifest says, to the byte."""
        return not self.damages

    def count_lost(self, block_records: int) -> int:
        """Returns how many records are in the bad blocks."""
        return sum(self.shard.records_in(block, block_records) for block in self.bad)

    def replace_damages(self, what: str) -> Walked:
        """Returns this with one explanation in place of its damages; no block of it is good."""
        every = frozenset(range(len(self.shard.blocks)))
        return dataclasses.replace(self, damages=(Damage(what),), bad=every)


def walk(
    folder: str,
    contents: manifest.Manifest,
    *,
    check: Check | None = None,
    progress: Callable[[int], None] = lambda count: None,
    known: verified.Verified | None = None,
) -> list[Walked]:
    """Returns what is found of every shard, in the order of the manifest.

    Every record's two checksums are compared, each shard's own, all counts and all offsets.
    `check` looks at payloads besides; `progress` is called with numbers of bytes read. What is
    `known` to be intact is not read again. Reads at about 1 GB/s and holds one block in memory.
    Raises `RetryableError` if a shard cannot be read now: that is no damage.
    """
    shards = [(name, shard) for name, split in contents.splits.items() for shard in split.shards]
    found = storage.describe([storage.join(folder, shard.path) for _, shard in shards])
    walked = []
    for (name, shard), details in zip(shards, found, strict=True):
        version = details.version if details else ""
        listed = Walked(name, storage.join(folder, shard.path), shard)
        if known is not None and known.knows(shard.path, version, shard.crc32c):
            walked.append(dataclasses.replace(listed, found=(shard.bytes, shard.crc32c)))
            progress(shard.bytes)
            continue
        look = functools.partial(
            _walk_shard,
            listed,
            block_records=contents.block_records,
            check=check,
            progress=progress,
        )
        try:
            one = patience.read_patiently(listed.path, look)
        except FileNotFoundError:
            one = listed.replace_damages("missing")
        walked.append(one)
        if known is not None and one.intact:
            known.add(shard.path, version, shard.crc32c)
    return _mark_exchanged(walked)


def _mark_exchanged(walked: list[Walked]) -> list[Walked]:
    """Recognises files that lie under the name of another."""
    listed = {(w.shard.bytes, w.shard.crc32c): w for w in walked if w.shard.records}
    result = []
    for one in walked:
        other = listed.get(one.found) if one.found and not one.intact else None
        if other is None or other is one:
            result.append(one)
        elif other.intact:
            result.append(
                one.replace_damages(f"is a copy of {other.path!r}; its own records are gone")
            )
        else:
            result.append(
                one.replace_damages(f"holds what belongs to {other.path!r}: they were exchanged")
            )
    return result


def _walk_shard(
    listed: Walked,
    *,
    block_records: int,
    check: Check | None,
    progress: Callable[[int], None],
) -> Walked:
    path, shard = listed.path, listed.shard
    checksum = google_crc32c.Checksum()
    damages: list[Damage] = []
    length = storage.size(path)
    with storage.open_file(path) as file:
        head = file.read(tfrecord.HEADER_BYTES)
        file.seek(0)
        for block, (start, end) in enumerate(shard.ranges()):
            content = file.read(max(0, min(end, length) - start))
            checksum.update(content)
            progress(len(content))
            expected = shard.records_in(block, block_records)
            damage = _damage(content, end - start, expected, check=check)
            if damage is not None:
                record, offset, what = damage
                number = block * block_records + record
                damages.append(Damage(what, block, number, start + offset))
        listed_part = checksum.hexdigest().decode()
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
    found = (length, checksum.hexdigest().decode())
    here = dataclasses.replace(listed, found=found)
    if kind := file_kinds.compression(head):
        return here.replace_damages(
            f"compressed with {kind}; records are not, and cannot be read so"
        )
    bad = frozenset(damage.block for damage in damages if damage.block is not None)
    if length < shard.bytes:
        damages.insert(0, Damage(f"cut: {length} bytes, the manifest says {shard.bytes}"))
    elif length > shard.bytes:
        damages.insert(0, Damage(f"{length - shard.bytes} bytes follow the last of its records"))
    if listed_part != shard.crc32c and not bad:
        return here.replace_damages(
            f"altered: CRC-32C {listed_part}, the manifest says {shard.crc32c}, and no record tells"
            " where"
        )
    return dataclasses.replace(here, damages=tuple(damages), bad=bad)


def _damage(
    content: bytes, size: int, expected: int, *, check: Check | None
) -> tuple[int, int, str] | None:
    """Returns number and offset of the first bad record of a block, and what is wrong."""
    offset = 0
    payloads: list[bytes] = []
    try:
        for payload in tfrecord.walk(content):
            if len(payloads) == expected:
                return expected, offset, f"more records than the {expected} of the manifest"
            payloads.append(payload)
            offset += tfrecord.HEADER_BYTES + len(payload) + tfrecord.FOOTER_BYTES
    except tfrecord.CorruptRecord as broken:
        return len(payloads), offset, str(broken)
    if len(payloads) < expected:
        gone = "the file ends before it" if len(content) < size else "the block ends before it"
        return len(payloads), offset, gone
    wrong = check(payloads) if check is not None else None
    if wrong is None:
        return None
    before = sum(map(len, payloads[: wrong[0]]))
    return wrong[0], before + wrong[0] * (tfrecord.HEADER_BYTES + tfrecord.FOOTER_BYTES), wrong[1]


def report(walked: Sequence[Walked], *, first: int = 3) -> Iterator[str]:
    """Yields lines for people: the first problems of each damaged shard."""
    for one in walked:
        for damage in one.damages[:first]:
            yield f"{one.path}: {damage}"
        if len(one.damages) > first:
            yield f"{one.path}: and {len(one.damages) - first} more"
