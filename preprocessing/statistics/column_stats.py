"""Statistics of columns, gathered batch by batch in the same pass that encodes.

Each batch is first reduced to its different values and how often they occur. All parts are exact
or only count, so the result is the same whatever the batches, workers and order of merging.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from pipeline import config
from pipeline.records import manifest
from preprocessing.arrow import arrow_types, lists
from preprocessing.statistics import bins, moments, quantile_sketch

# A column with more different values than this, and no declared vocabulary, is not counted by
# value: memory must not grow with the data unless the config asks for it.
MAX_DISTINCT = 100_000
# Sets of rows that are put together in one go.
_AT_ONCE = 16
# Values a manifest lists of a column for which no vocabulary is declared.
_LISTED = 1000

# None once there were too many of them, or if they are not needed.
Counts = collections.Counter[int | str] | None


@dataclasses.dataclass(frozen=True)
class Partial:
    """What is known of one column of some rows."""

    count: int = 0
    missing: int = 0
    not_finite: int = 0
    moments: moments.Moments = dataclasses.field(default_factory=moments.Moments)
    sketch: quantile_sketch.Sketch = dataclasses.field(default_factory=quantile_sketch.Sketch)
    values: Counts = None
    # Numbers of items of rows, of a column that is a list.
    lengths: Partial | None = None

    def subtract(self, other: Partial) -> Partial:
        """Returns what is known without the rows that `other` is of, where rows that are equal to
        each of them stay."""
        values = None
        if self.values is not None and other.values is not None:
            values = self.values - other.values
        return Partial(
            self.count - other.count,
            self.missing - other.missing,
            self.not_finite - other.not_finite,
            self.moments.subtract(other.moments),
            self.sketch.subtract(other.sketch),
            values,
            self.lengths and other.lengths and self.lengths.subtract(other.lengths),
        )


# What the length of a list is, as a column.
LENGTHS = config.Column(type="int64")

# By split and column. Rows that are to be taken from a split count for one of another name.
Partials = dict[tuple[str, str], Partial]
_TAKEN = "without "
# Those of train that `data.sample` has left out: they only say which labels are frequent.
_LEFT_OUT = "left out"


def count_batch(batch: pa.RecordBatch, split: str, data: config.Data) -> Partials:
    """Returns what is known of rows of one split, which have the types of `schema`."""
    return {
        (split, name): _count_column(batch.column(name), column, counted=name in data.every_label)
        for name, column in data.columns.items()
    }


def count_left_out(batch: pa.RecordBatch, data: config.Data) -> Partials:
    """Returns what the order of labels takes from rows of train that `data.sample` leaves out."""
    return {
        (_LEFT_OUT, name): _count_column(batch.column(name), data.columns[name], counted=True)
        for name in data.every_label
    }


def merge(parts: Iterable[Partials], data: config.Data) -> Partials:
    """Puts parts together, in any order."""
    found: dict[tuple[str, str], list[Partial]] = {}
    for part in parts:
        for key, partial in part.items():
            found.setdefault(key, []).append(partial)
            if len(found[key]) == _AT_ONCE:
                found[key] = [_merge_partials(found[key], data.columns[key[1]])]
    return {key: _merge_partials(of_key, data.columns[key[1]]) for key, of_key in found.items()}


def _merge_partials(parts: Sequence[Partial], column: config.Column) -> Partial:
    """Returns what is known of several sets of rows together."""
    if len(parts) == 1:
        return parts[0]
    lengths = [part.lengths for part in parts if part.lengths is not None]
    return Partial(
        sum(part.count for part in parts),
        sum(part.missing for part in parts),
        sum(part.not_finite for part in parts),
        functools.reduce(moments.Moments.merge, (part.moments for part in parts)),
        quantile_sketch.merge([part.sketch for part in parts]),
        _add_counts([part.values for part in parts], column),
        _merge_partials(lengths, LENGTHS) if lengths else None,
    )


def turn_into_removals(found: Partials) -> Partials:
    """Returns parts for `merge` that take rows from the splits they were counted for. Rows that are
    equal to these must stay there."""
    return {(_TAKEN + split, name): partial for (split, name), partial in found.items()}


def finish(found: Partials, data: config.Data) -> dict[str, manifest.Statistics]:
    """Returns the statistics of each split, as a manifest has them."""
    less = {key: partial for key, partial in found.items() if key[0].startswith(_TAKEN)}
    left_out = {name: one for (split, name), one in found.items() if split == _LEFT_OUT}
    found = {k: one for k, one in found.items() if k not in less and k[0] != _LEFT_OUT}
    for (split, name), partial in less.items():
        key = (split.removeprefix(_TAKEN), name)
        found[key] = found[key].subtract(partial)
    splits = sorted({split for split, _ in found}, key=config.SPLITS.index)
    made = {
        split: _finish_split(found, split, data, left_out=left_out if split == "train" else {})
        for split in splits
    }
    _add_histograms(made, found, data)
    return made


def _count_column(array: pa.Array, column: config.Column, counted: bool) -> Partial:
    if column.list:
        of_items = _count_column(array.flatten(), column.item, counted)
        sizes = pa.array(lists.count_items(array.drop_null()))
        lengths = _count_column(sizes, LENGTHS, counted=False)
        return dataclasses.replace(of_items, missing=array.null_count, lengths=lengths)
    if column.type == "image":
        return Partial(len(array) - array.null_count, array.null_count)
    present = array.drop_null() if array.null_count else array
    values, counts = _count_different(present, column)
    count = int(counts.sum())
    known: Counts = None
    if counted or column.vocabulary or column.type == "string":
        # NaN is equal to nothing, so that each time it would be another value.
        some = ~np.isnan(values) if values.dtype == np.float32 else slice(None)
        if column.vocabulary or len(values[some]) <= MAX_DISTINCT:
            pairs = zip(values[some].tolist(), counts[some].tolist(), strict=True)
            known = collections.Counter(dict(pairs))
    if column.type == "string":
        return Partial(count, array.null_count, values=known)
    finite = np.isfinite(values)
    not_finite = count - int(counts[finite].sum())
    values, counts = values[finite], counts[finite]
    return Partial(
        count,
        array.null_count,
        not_finite,
        moments.compute(values, counts),
        quantile_sketch.build(values, counts),
        known,
    )


def _count_different(present: pa.Array, column: config.Column) -> tuple[np.ndarray, np.ndarray]:
    """Returns the different values of a column, all of a row's, and how often each occurs. Numbers
    ascend."""
    if column.type == "uint8":
        counts = count_bytes(arrow_types.extract_numbers(present, column).ravel())
        return np.flatnonzero(counts), counts[counts > 0]
    if column.type == "string":
        found = (present.flatten() if column.shape else present).value_counts()
        return found.field(0).to_numpy(zero_copy_only=False), found.field(1).to_numpy()
    values = arrow_types.extract_numbers(present, column).ravel()
    # Adding zero makes -0.0 the 0.0 it is equal to. Sorting is faster than hashing.
    values = np.sort(values + values.dtype.type(0))
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return values[starts], np.diff(starts, append=len(values))


def count_bytes(values: np.ndarray) -> np.ndarray:
    """Returns how often each byte occurs; counting pairs of them takes half the time."""
    even = len(values) // 2 * 2
    pairs = np.bincount(values[:even].view(np.uint16), minlength=1 << 16).reshape(256, 256)
    return pairs.sum(axis=0) + pairs.sum(axis=1) + np.bincount(values[even:], minlength=256)


def _add_counts(parts: Sequence[Counts], column: config.Column) -> Counts:
    total: collections.Counter[int | str] = collections.Counter()
    for part in parts:
        if part is None:
            return None
        total.update(part)
    return _drop_excess(total, column)


def _drop_excess(values: collections.Counter[int | str], column: config.Column) -> Counts:
    """Gives up on too many. A set only grows, so it does not matter when that is noticed."""
    return values if column.vocabulary or len(values) <= MAX_DISTINCT else None


def _finish_split(
    found: Partials, split: str, data: config.Data, *, left_out: Mapping[str, Partial]
) -> manifest.Statistics:
    columns = {
        name: _finish_column(found[split, name], column, left_out.get(name))
        for name, column in data.columns.items()
    }
    weights = None
    classes = found[split, data.label].values
    label = data.columns[data.label]
    shown = label.type != "float32" and (label.vocabulary or not label.sensitive)
    if classes and shown and len(classes) <= _LISTED:
        ordered = sorted(classes.items(), key=lambda item: item[0])
        total = classes.total()
        weights = tuple((value, total / (len(classes) * count)) for value, count in ordered)
    return manifest.Statistics(columns=columns, class_weights=weights)


def _add_histograms(
    splits: dict[str, manifest.Statistics], found: Partials, data: config.Data
) -> None:
    for name in data.columns:
        known = {split: (of.columns[name], found[split, name]) for split, of in splits.items()}
        for split, one in _make_histograms(known).items():
            splits[split].columns[name] = one


# The statistics of a column in one split, and what they were made of.
_Known = tuple[manifest.ColumnStatistics, Partial]


def _make_histograms(known: dict[str, _Known]) -> dict[str, manifest.ColumnStatistics]:
    """Returns the statistics of each split with histograms that share their bins."""
    numbers = [one for one, _ in known.values() if one.quantiles is not None]
    edges = bins.find_shared_edges(numbers) if numbers else None
    lengths = {
        split: (one.lengths, partial.lengths)
        for split, (one, partial) in known.items()
        if one.lengths is not None and partial.lengths is not None
    }
    of_lengths = _make_histograms(lengths) if lengths else {}
    found = {}
    for split, (one, partial) in known.items():
        update: dict[str, object] = {"lengths": of_lengths[split]} if split in of_lengths else {}
        if edges is not None and one.quantiles is not None:
            counts = partial.sketch.count_bins(edges).tolist()
            low, high = float(edges[0]), float(edges[-1])
            update["histogram"] = manifest.Histogram(low=low, high=high, counts=counts)
        found[split] = one.model_copy(update=update)
    return found


def _finish_column(
    partial: Partial, column: config.Column, left_out: Partial | None = None
) -> manifest.ColumnStatistics:
    """Returns the statistics of a column. Its values are in the order of all rows together with
    those that were `left_out`: which label is frequent must not depend on the sample."""
    numbers, listed = partial.moments, None
    shown = partial.values and not column.sensitive
    if partial.values is not None and (column.vocabulary or shown):
        rules = column.vocabulary or config.VocabularyRules(top_k=_LISTED)
        others = (left_out and left_out.values) or collections.Counter()
        # The smaller of two equally frequent values comes first.
        ordered = sorted(
            partial.values.items(), key=lambda item: (-item[1] - others[item[0]], item[0])
        )
        listed = tuple((v, n) for v, n in ordered if n >= rules.min_count)[: rules.top_k]
    quantiles = bits = None
    if numbers.least is not None and numbers.greatest is not None:
        found = partial.sketch.compute_percentiles().clip(numbers.least, numbers.greatest).tolist()
        quantiles = (float(numbers.least), *found[1:-1], float(numbers.greatest))
        bits = partial.sketch.kept_bits
    return manifest.ColumnStatistics(
        count=partial.count,
        missing=partial.missing,
        not_finite=partial.not_finite,
        mean=numbers.mean,
        variance=numbers.variance,
        min=numbers.least,
        max=numbers.greatest,
        quantiles=quantiles,
        quantile_bits=bits,
        distinct=None if partial.values is None else len(partial.values),
        vocabulary=listed,
        lengths=None if partial.lengths is None else _finish_column(partial.lengths, LENGTHS),
    )
