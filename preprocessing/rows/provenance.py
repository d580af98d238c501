"""Where each record is from: its file, as the manifest calls it, and its row in it."""

from __future__ import annotations

import pyarrow as pa

from pipeline import config
from preprocessing.rows.validate import Good
from preprocessing.sources.base import Rows


def add_provenance(
    good: Good, rows: Rows, columns: dict[str, config.Column]
) -> tuple[pa.RecordBatch, dict[str, config.Column]]:
    """Returns the batch of `good` with the columns of `config.PROVENANCE`, and all columns.

    Rows are counted as in dead letters. `rows` are those that `good` was made of.
    """
    if rows.stretches:
        known = pa.array([stretch.file.name for stretch in rows.stretches], pa.string())
        names = known.take(pa.array(rows.find_owners(good.kept)))
    elif rows.each:
        names = pa.array([rows.each[row].name for row in good.kept.tolist()], pa.string())
    else:
        names = pa.repeat(pa.scalar(rows.name), len(good.kept))
    values = dict(zip(config.PROVENANCE, (names, pa.array(good.numbers, pa.int64())), strict=True))
    batch = pa.record_batch(
        {**dict(zip(good.batch.schema.names, good.batch.columns, strict=True)), **values}
    )
    return batch, {**columns, **config.PROVENANCE}
