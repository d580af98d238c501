"""Which rows of train are left out by `data.sample`: a function of a row's key alone, so that it is
the same for any number of workers and shards."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from pipeline.config.splits import SPLITS
from pipeline.records import manifest
from preprocessing.arrow import binary
from preprocessing.rows import hashing
from preprocessing.rows.validate import Good


def select_kept(
    batch: pa.RecordBatch, row_keys: binary.Binary, splits: np.ndarray, *, data: config.Data
) -> np.ndarray:
    """Returns which rows are kept, `[rows]` bool; `splits` are their places in `SPLITS`."""
    rule = data.sample
    if rule is None:
        return np.ones(batch.num_rows, bool)
    column = batch.column(rule.column)
    hits = pc.equal(column, pa.scalar(rule.value, column.type)).fill_null(False)
    sampled = hits.to_numpy(zero_copy_only=False) & (splits == SPLITS.index("train"))
    # Another salt than the split's, or what a split leaves would be no random sample.
    bits = hashing.hash_keys(row_keys, f"sample {rule.salt}", hashing.FOR_SPLIT)
    kept: np.ndarray = ~sampled | (bits < np.uint64(int(rule.keep * 2.0**64)))
    return kept


def leave_out(good: Good, staying: np.ndarray) -> Good:
    """Returns the rows that are kept, `[rows]` bool, next to the others."""
    return dataclasses.replace(
        good,
        numbers=good.numbers[staying],
        splits=good.splits[staying],
        kept=good.kept[staying],
        batch=good.batch.filter(pa.array(staying)),
        left_out=good.batch.filter(pa.array(~staying)),
    )


def report_sample(data: config.Data, dropped: int) -> manifest.Sampled | None:
    """Returns what the manifest says of the rows that were left out, and says so; `None` without a
    sample."""
    rule = data.sample
    if rule is None:
        return None
    found = manifest.Sampled(column=rule.column, value=rule.value, keep=rule.keep, dropped=dropped)
    print(found.describe(sensitive=data.columns[rule.column].sensitive), flush=True)
    return found
