"""Which split each row goes to, by `data.split`, and which rows do not say so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from pipeline.config.splits import SPLITS, ColumnSplit, HashSplit, SplitName, TimeSplit, instant
from pipeline.steps import date_forms
from preprocessing.arrow import binary, cast, date_texts, nulls
from preprocessing.rows import hashing
from preprocessing.sources import keys

# How a time ends that says what zone it is of; a day alone ends like hours of one.
_ZONE = r"(Z|[+-]\d\d:?\d\d|:\d\d(\.\d+)?[+-]\d\d)$"


def list_held_out(data: config.Data) -> list[SplitName]:
    """Returns the splits that are cut out of train: those without inputs of their own."""
    wanted = data.split.held_out if "train" in data.inputs else ()
    return [name for name in wanted if name not in data.inputs]


def list_splits(data: config.Data) -> list[SplitName]:
    """Returns the splits that there will be."""
    return [name for name in SPLITS if name in data.inputs or name in list_held_out(data)]


def find_input_split(data: config.Data, split: SplitName) -> SplitName:
    """Returns the split whose inputs hold the rows of `split`."""
    return split if split in data.inputs else "train"


def assign(
    batch: pa.RecordBatch, split: SplitName, data: config.Data
) -> tuple[np.ndarray, list[cast.Fault]]:
    """Returns the place in `SPLITS` of each row that was read from the inputs of `split`.

    Rows whose column says nothing that `data.split` knows are faults: `time` or `split`. Where keys
    of rows decide, all stay in `split`: see `draw`.
    """
    found = np.full(batch.num_rows, SPLITS.index(split), np.uint8)
    if split != "train" or not list_held_out(data) or is_by_key(data):
        return found, []
    if isinstance(data.split, HashSplit):
        return _assign_by_hash(keys.join_columns(batch, data.split.columns), data, found), []
    column = batch.column(data.split.column)
    if isinstance(data.split, TimeSplit):
        return _assign_by_time(
            column, data.split, found, form=data.columns[data.split.column].dates or "iso"
        )
    return _assign_by_column(column, data.split)


def is_by_key(data: config.Data) -> bool:
    """Tells if the key of a row decides which split it goes to."""
    return isinstance(data.split, HashSplit) and not data.split.columns


def draw(
    row_keys: binary.Binary, found: np.ndarray, split: SplitName, *, data: config.Data
) -> np.ndarray:
    """Returns the place in `SPLITS` of each row by its key, or as `found` if keys do not decide."""
    if split != "train" or not list_held_out(data) or not is_by_key(data):
        return found
    return _assign_by_hash(row_keys, data, np.full_like(found, SPLITS.index(split)))


def _assign_by_hash(named: binary.Binary, data: config.Data, found: np.ndarray) -> np.ndarray:
    rule, held_out = data.split, list_held_out(data)
    assert isinstance(rule, HashSplit)
    bits = hashing.hash_keys(named, rule.salt, hashing.FOR_SPLIT)
    # From both ends, so that neither takes from the other when it grows.
    if "eval" in held_out:
        found[bits < np.uint64(int(rule.eval * 2.0**64))] = SPLITS.index("eval")
    if "test" in held_out:
        found[bits >= np.uint64(int((1 - rule.test) * 2.0**64))] = SPLITS.index("test")
    return found


def _assign_by_time(
    column: pa.Array, rule: TimeSplit, found: np.ndarray, *, form: date_forms.Form
) -> tuple[np.ndarray, list[cast.Fault]]:
    faults: list[cast.Fault] = []
    if pa.types.is_string(column.type):
        times = (
            _parse_instants(column) if form == "iso" else date_texts.parse_instants(form, column)
        )
        bad = pc.and_(times.is_null(), column.is_valid()).to_numpy(zero_copy_only=False)
        faults = [("time", bad)] if bad.any() else []
        column = times
    moments = column.fill_null(0).to_numpy()
    for name in rule.held_out:
        moment = getattr(rule, name)
        found[moments >= instant(moment)] = SPLITS.index(name)
    return found, faults


def _parse_instants(texts: pa.StringArray) -> pa.Int64Array:
    """Returns microseconds since 1970, null for what is no time; UTC unless a text says otherwise.

    Arrow reads times with a zone and times without one as different types.
    """
    texts = date_texts.cut_below_microseconds(texts)
    # As in the forms of dates, there is no year 0.
    texts = nulls.put_null(texts, pc.starts_with(texts, "0000"))
    zoned = pc.match_substring_regex(texts, _ZONE)
    with_zone, without = pa.timestamp("us", "UTC"), pa.timestamp("us")
    parts = [
        cast.cast(nulls.put_null(texts, pc.invert(zoned)), with_zone)[0],
        cast.cast(nulls.put_null(texts, zoned), without)[0],
    ]
    return pc.coalesce(*(part.cast(pa.int64()) for part in parts))


def _assign_by_column(column: pa.Array, rule: ColumnSplit) -> tuple[np.ndarray, list[cast.Fault]]:
    values = pa.array(list(rule.values)).cast(column.type)
    places = np.array([SPLITS.index(name) for name in rule.values.values()], np.uint8)
    indices = pc.index_in(column, values)
    bad = pc.and_(indices.is_null(), column.is_valid()).to_numpy(zero_copy_only=False)
    found = places[indices.fill_null(0).to_numpy()]
    return found, [("split", bad)] if bad.any() else []
