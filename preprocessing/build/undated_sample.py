"""Values that the step `date` cannot read, in records that are there already.

Rows are counted while they become records. Of a build that an earlier config has made, and of files
that are used in place, a sample is looked at: a feature may be newer than its records.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import config, storage
from pipeline.config.date_rules import Unruled
from pipeline.records import manifest, tfrecord
from preprocessing.arrow import examples
from preprocessing.rows import undated

# Of each split, as far as they are no more bytes: wide records take long to read.
_RECORDS, _BYTES = 10_000, 16 << 20


def find_warnings(
    data: config.Data, folder: str, made: manifest.Manifest, *, dates: Unruled
) -> Iterator[str]:
    """Yields a line for each split and column of `dates` that has such values. Raises `DataError`
    for a damaged record."""
    columns = {name: data.columns[name] for name in dates}
    for name, split in made.splits.items() if columns else ():
        payloads = list(_sample_records(folder, split))
        batch, _ = examples.parse_columns(payloads, columns, {})
        counts = undated.count(batch, dates, data.columns)
        among = "" if len(payloads) == split.records else f"among {len(payloads):,} records, "
        for line in undated.format_warnings(counts, dates):
            yield f"{name}: {among}{line}"


def _sample_records(folder: str, split: manifest.Split) -> Iterator[bytes]:
    """Yields records from the beginning of each shard: these are in random order."""
    shards = [shard for shard in split.shards if shard.records]
    size = 0
    for number, shard in enumerate(shards, 1):
        count = min(shard.records, -(-_RECORDS // len(shards)))
        for payload in tfrecord.read(storage.join(folder, shard.path), count=count):
            yield payload
            size += len(payload)
            if size > _BYTES * number / len(shards):
                break
