"""Sets of records made of given payloads, as preprocessing lays them out, in no time."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import google_crc32c

from pipeline import config
from pipeline.records import manifest, tfrecord

COLUMNS = {"label": config.Column(type="int64")}


def write(
    folder: pathlib.Path,
    splits: Mapping[str, Sequence[Sequence[bytes]]],
    *,
    block_records: int,
    columns: Mapping[str, config.Column] = COLUMNS,
    label: str = "label",
) -> manifest.Manifest:
    """Writes shards of `splits[split][shard]` payloads below `folder`, and their manifest."""
    (folder / "build").mkdir(parents=True, exist_ok=True)
    made = {}
    for split, of_split in splits.items():
        shards = tuple(
            _shard(folder, f"build/{split}-{index}.tfrecord", payloads, block_records)
            for index, payloads in enumerate(of_split)
        )
        made[split] = manifest.Split(records=sum(s.records for s in shards), shards=shards)
    contents = manifest.Manifest(
        fingerprint="f" * 64,
        columns=dict(columns),
        label=label,
        block_records=block_records,
        sources=(),
        splits=made,
    )
    manifest.write(str(folder), contents)
    return contents


def _shard(
    folder: pathlib.Path, name: str, payloads: Sequence[bytes], block_records: int
) -> manifest.Shard:
    frames = [tfrecord.frame(payload) for payload in payloads]
    starts = [sum(map(len, frames[:at])) for at in range(0, len(frames), block_records)]
    content = b"".join(frames)
    (folder / name).write_bytes(content)
    return manifest.Shard(
        path=name,
        records=len(frames),
        bytes=len(content),
        crc32c=f"{google_crc32c.value(content):08x}",
        blocks=tuple(starts),
    )
