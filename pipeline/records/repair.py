"""What `make verify` does: checks a whole set of records, and leaves out what is damaged."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import errors, storage
from pipeline.console.progress import Progress
from pipeline.records import manifest, scan, shard_check


def verify(folder: str) -> None:
    """Walks all shards and says what is wrong. Raises `DataError` if anything is."""
    contents = manifest.read(folder)
    walked = _walk(folder, contents)
    damaged = [one for one in walked if not one.intact]
    if not damaged:
        print(f"{folder}: intact, {_format_counts(contents)}")
        return
    raise errors.DataError(f"{_summarize(walked, contents)}. {shard_check.ways_out(folder)}")


def run(folder: str) -> manifest.Manifest:
    """Writes the manifest again from the intact shards, wherever they lie; returns it.

    The old one stays next to it, named after its hash. Raises `DataError` if no record to train
    on would be left.
    """
    contents = manifest.read(folder)
    walked = _walk(folder, contents)
    if all(one.intact for one in walked):
        print(f"{folder}: intact, {_format_counts(contents)}; nothing to repair")
        return contents
    repaired = drop_damaged(contents, walked)
    if not repaired.splits["train"].records:
        raise errors.DataError(f"{_summarize(walked, contents)}: nothing to train on would be left")
    kept = storage.join(folder, f"manifest-{contents.sha256[:12]}.json")
    storage.write_text(kept, contents.to_json())
    manifest.write(folder, repaired)
    for line in _describe_left_out(contents, repaired):
        print(line)
    print(f"{folder}: {_format_counts(repaired)}; the manifest before is {kept}")
    return repaired


def drop_damaged(contents: manifest.Manifest, walked: Sequence[scan.Walked]) -> manifest.Manifest:
    """Returns a manifest of the shards whose content is there, under their own name or another's.

    Statistics stay those of all records: transforms must not change under a model that was
    trained with them. `left_out` says which records they count that are no longer listed.
    """
    exchanged = {one.found: one.shard.path for one in walked if not one.intact}
    left_out = list(contents.left_out or ())
    splits: dict[str, list[manifest.Shard]] = {name: [] for name in contents.splits}
    for one in walked:
        wanted = (one.shard.bytes, one.shard.crc32c)
        path = one.shard.path if one.intact else exchanged.pop(wanted, None)
        if path is not None:
            splits[one.split].append(one.shard.model_copy(update={"path": path}))
        else:
            left_out.append(
                manifest.LeftOut(split=one.split, path=one.shard.path, records=one.shard.records)
            )
    return contents.model_copy(
        update={
            "splits": {
                name: manifest.Split(records=sum(s.records for s in shards), shards=tuple(shards))
                for name, shards in splits.items()
            },
            "left_out": tuple(left_out) or None,
        }
    )


def _walk(folder: str, contents: manifest.Manifest) -> list[scan.Walked]:
    total = sum(shard.bytes for split in contents.splits.values() for shard in split.shards)
    with Progress("verifying", total, unit="bytes") as progress:
        walked = scan.walk(folder, contents, progress=progress.advance)
    for line in scan.report(walked):
        print(line)
    return walked


def _summarize(walked: Sequence[scan.Walked], contents: manifest.Manifest) -> str:
    damaged = [one for one in walked if not one.intact]
    lost = sum(one.count_lost(contents.block_records) for one in damaged)
    total = sum(split.records for split in contents.splits.values())
    return (
        f"{len(damaged)} of {len(walked)} shards are damaged, the first is {damaged[0].path!r} "
        f"({damaged[0].damages[0]}); {lost:,} of {total:,} records are in damaged blocks"
    )


def _format_counts(contents: manifest.Manifest) -> str:
    return ", ".join(
        f"{name} {split.records:,} records in {len(split.shards)} shards"
        for name, split in contents.splits.items()
    )


def _describe_left_out(contents: manifest.Manifest, repaired: manifest.Manifest) -> list[str]:
    before = len(contents.left_out or ())
    new = (repaired.left_out or ())[before:]
    lines = [f"left out: {one.path}, {one.records:,} records of {one.split}" for one in new]
    if new:
        lines.append(
            "statistics are still those of all records, with those left out; manifest.json says "
            "so under left_out"
        )
    empty = [n for n, s in repaired.splits.items() if contents.splits[n].records and not s.records]
    return [*lines, *(f"split {name!r} has no records any more" for name in empty)]
