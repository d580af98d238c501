"""Whether there are records enough to train on and to measure with."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator

import numpy as np

from pipeline import config, errors
from pipeline.console.figures import bound
from pipeline.records import coarse, manifest
from preprocessing.rows.split import find_input_split, list_splits

# Metrics of fewer records in all say next to nothing.
_FEW = 100
# With fewer rows for each class, on average, none can be learned.
_PER_CLASS = 2
# Fewer rows of a sample do not stand for all, and so many may.
_STAND_FOR_NONE, _STAND_FOR_ALL = 10, 100
# The roots of the largest float32, and of the smallest with all its digits.
_LARGEST_ROOT, _SMALLEST_ROOT = 1.84e19, 1.08e-19
_NOTHING_LEARNED = "nothing can be learned of it"
_NOTHING_SHOWN = "it cannot show how good a model is"
_OTHERS = "Add rows with other values, or name another label"
# A good model errs by a hundredth of the label's deviation.
_SMALL_ERROR = 0.01
# Predictions in steps of more than this share of the label's deviation are coarse: rounding them
# errs by a 700th of it, which counts where a good model errs by a hundredth.
_COARSE_LABEL = 0.005


def check(data: config.Data, made: manifest.Manifest) -> None:
    """Raises `DataError` if there is nothing to train on, or nothing in the eval split; for one of
    several labels that all rows of train lack; and for a label of which a sample keeps no row."""
    total = sum(split.records for split in made.splits.values())
    counts = ", ".join(f"{name} {split.records:,}" for name, split in made.splits.items())
    for name in list_splits(data):
        if name != "test" and not made.splits[name].records:
            files = ", ".join(map(repr, data.inputs[find_input_split(data, name)].values()))
            raise errors.DataError(
                f"{files}: {name} is empty: {total:,} {'row is' if total == 1 else 'rows are'} "
                f"left after preprocessing ({counts}). Use more rows, or change data.split"
            )

    train = made.statistics.get("train")
    for label in data.labels if train is not None else ():
        if train is not None and not train.columns[label].count:
            raise errors.DataError(
                f"label {label!r} is missing in all {made.splits['train'].records:,} rows of "
                "train: nothing can be learned of it. Take it out of labels, or add rows that "
                "have it"
            )
    _check_sample(data, made)


def find_warnings(data: config.Data, made: manifest.Manifest) -> list[str]:
    """Returns what is likely to disappoint, a line each."""
    found = [
        *_warn_of_small_shards(data, made),
        *_warn_of_copies(data, made),
        *_warn_of_no_values(data, made),
        *find_label_warnings(data, made),
        *_warn_of_sample(data, made),
        *_warn_of_taken_for_missing(data, made),
        *_warn_of_infinite(made),
        *_warn_of_large_squares(data, made),
        *_warn_of_coarse_steps(data, made),
    ]
    total = sum(split.records for split in made.splits.values())
    if 0 < total < _FEW:
        found.append(f"{total} records in all: too few to measure a model with")
    train = made.statistics.get("train")
    label = train.columns.get(data.label) if train else None
    if label is None or not label.distinct or label.count < 2:
        return found
    column = data.columns[data.label]
    if label.distinct > 1 and _has_classes(column) and label.count < _PER_CLASS * label.distinct:
        found.append(
            f"label {data.label!r} has {label.distinct:,} classes in {label.count:,} rows of "
            "train: too few of each"
        )
    return found


def _check_sample(data: config.Data, made: manifest.Manifest) -> None:
    """Raises `DataError` if no row of train is left with the label that is sampled."""
    found = made.sampled
    if found is None or not found.dropped or _count_sampled(data, made) != 0:
        return
    share = _STAND_FOR_ALL / found.dropped
    more = f"Use a larger keep, or take data.sample out: {found.dropped:,} rows are few"
    if share < 0.5:
        share = math.ceil(share * 10 ** (digits := -math.floor(math.log10(share)))) / 10**digits
        more = f"Use a larger keep: {share:g} keeps about {share * found.dropped:,.0f}"
    raise errors.DataError(
        f"data.sample.keep is {found.keep:g}, and none of the {found.dropped:,} rows of train with "
        f"{_name_sampled(data, found)} was kept: nothing can be learned of them. {more}"
    )


def _warn_of_sample(data: config.Data, made: manifest.Manifest) -> Iterator[str]:
    """Yields a line if few rows of train are left with the label that is sampled."""
    found, kept = made.sampled, _count_sampled(data, made)
    if found is not None and found.dropped and kept is not None and 0 < kept < _STAND_FOR_NONE:
        yield (
            f"{kept} of the {kept + found.dropped:,} rows of train with "
            f"{_name_sampled(data, found)} were kept, which are to stand for all: too few. Use a "
            "larger data.sample.keep"
        )


def _name_sampled(data: config.Data, found: manifest.Sampled) -> str:
    value = "one value" if data.columns[found.column].sensitive else str(found.value)
    return f"{value} in {found.column}"


def _count_sampled(data: config.Data, made: manifest.Manifest) -> int | None:
    """Returns how many rows of train have the value that is sampled, if it is of a label and that
    is known; of a sensitive label it may be known that there is none."""
    train, found = made.statistics.get("train"), made.sampled
    if train is None or found is None or found.column not in data.every_label:
        return None
    label, value = train.columns[found.column], found.value
    if data.columns[found.column].type == "float32" and not isinstance(value, str):
        value = float(np.float32(value))
    known = dict(label.vocabulary or ())
    if value in known:
        return known[value]
    outside = (
        not isinstance(value, str)
        and label.min is not None
        and label.max is not None
        and not label.min <= value <= label.max
    )
    complete = label.vocabulary is not None and len(known) == label.distinct
    return 0 if complete or outside or not label.count else None


def _warn_of_copies(data: config.Data, made: manifest.Manifest) -> Iterator[str]:
    """Yields a line for each split that has the same file several times."""
    for name, split in made.splits.items() if data.in_place else ():
        contents = [(shard.bytes, shard.crc32c) for shard in split.shards if shard.records]
        more = len(contents) - len(set(contents))
        if more:
            yield f"{name}: files with the content of another, whose rows count again: {more:,}"


def find_label_warnings(data: config.Data, made: manifest.Manifest) -> Iterator[str]:
    """Yields a line for train if all its rows have the same label, or none, else for each such
    split, and for each label."""
    for target in data.every_label:
        for name in sorted(made.statistics, key=lambda name: name != "train"):
            label = made.statistics[name].columns.get(target)
            of_train = name == "train"
            if label is not None and not label.count and made.splits[name].records:
                what = _NOTHING_LEARNED if of_train else _NOTHING_SHOWN
                yield f"label {target!r} is missing in all rows of {name}: {what}"
            elif label is not None and label.distinct == 1 and label.count > 1:
                same = _describe_same(label, data.columns[target])
                what = f"{_NOTHING_LEARNED}. {_OTHERS}" if of_train else _NOTHING_SHOWN
                yield f"label {target!r} is {same} in all {label.count:,} rows of {name}: {what}"
            else:
                continue
            if of_train:
                break


def _describe_same(found: manifest.ColumnStatistics, column: config.Column) -> str:
    """Returns what a label always is, unless it is sensitive."""
    values = [value for value, _ in found.vocabulary or ()]
    value = values[0] if values else found.min
    if column.sensitive or value is None:
        return "the same"
    if column.type == "float32" and not isinstance(value, str):
        return f"{value:.7g} as float32"
    return repr(value) if isinstance(value, str) else bound(value)


def _warn_of_large_squares(data: config.Data, made: manifest.Manifest) -> Iterator[str]:
    """Yields a line for each label whose squared error is infinite in float32, or zero."""
    train = made.statistics.get("train")
    known = train.columns if train is not None else {}
    for target in data.every_label:
        label = known.get(target)
        if label is None or label.min is None or label.max is None:
            continue
        largest = max(abs(label.min), abs(label.max))
        if largest > _LARGEST_ROOT:
            yield (
                f"label {target!r} has values up to {largest:.3g}: squared errors are infinite "
                f"from {_LARGEST_ROOT:.3g} on, as float32 ends at 3.4e+38. Give it in a larger unit"
            )
        spread = math.sqrt(label.variance or 0)
        if 0 < spread * _SMALL_ERROR < _SMALLEST_ROOT:
            yield (
                f"label {target!r} deviates by {spread:.3g}: squared errors below "
                f"{_SMALLEST_ROOT:.3g} count as 0, as float32 begins at 1.2e-38. Give it in a "
                "smaller unit"
            )


def _warn_of_coarse_steps(data: config.Data, made: manifest.Manifest) -> Iterator[str]:
    """Yields a line for each label that float32 can only take and predict in coarse steps, because
    it is far from zero for how little it varies."""
    train = made.statistics.get("train")
    known = train.columns if train is not None else {}
    for target in data.every_label:
        column, label = data.columns[target], known.get(target)
        if column.type not in ("int64", "float32") or _has_classes(column):
            continue
        if label is None or label.min is None or label.max is None or not label.variance:
            continue
        largest, spread = max(abs(label.min), abs(label.max)), math.sqrt(label.variance)
        step = coarse.step_of(largest)
        if step > _COARSE_LABEL * spread:
            yield (
                f"label {target!r} deviates by {spread:.3g}, but numbers up to {largest:.3g} are "
                f"{step:g} apart in float32: a regression does not predict it more closely, nor "
                "does a model of your own that takes it as float32 learn it so. Subtract what all "
                "values have in common from the raw data"
            )


def _warn_of_taken_for_missing(data: config.Data, made: manifest.Manifest) -> Iterator[str]:
    """Yields a line for each column in which a value is, or may be, what stands for a missing one
    to the trainer. One that the config names was chosen."""
    for name, column in data.columns.items():
        if column.missing != "allow" or column.default is not None or column.list:
            continue
        stand_in = column.stands_for_missing
        known = [of.columns[name] for of in made.statistics.values() if name in of.columns]
        missing = sum(one.missing for one in known)
        if not missing or stand_in != stand_in or not _allows(column, stand_in):
            continue
        there = sum(n for one in known for value, n in one.vocabulary or () if value == stand_in)
        among = any(_is_among(stand_in, one) for one in known)
        if not (there or among):
            continue
        how = f"in {there:,} rows it is a value" if there else "it lies among the values"
        yield (
            f"column {name!r}: {stand_in!r} stands for {missing:,} missing values, and {how}: a "
            f"model cannot tell them apart. Set data.columns.{name}.default to what is no value"
        )


def _warn_of_infinite(made: manifest.Manifest) -> Iterator[str]:
    """Yields a line for each column with values that are not finite."""
    count: collections.Counter[str] = collections.Counter()
    for statistics in made.statistics.values():
        count.update({name: one.not_finite for name, one in statistics.columns.items()})
    for name, found in count.items():
        if found:
            values = "an infinite value" if found == 1 else f"{found:,} infinite values"
            yield (
                f"column {name!r} has {values}, which its limits allow: a feature of it needs a "
                "clip step"
            )


def _is_among(value: int | float | str, known: manifest.ColumnStatistics) -> bool:
    """Tells if a value may be one of those that are not counted one by one."""
    if known.vocabulary is not None and len(known.vocabulary) == known.distinct:
        return False
    if isinstance(value, str) or known.min is None or known.max is None:
        return False
    return known.min <= value <= known.max


def _allows(column: config.Column, value: int | float | str) -> bool:
    """Tells if the rules of a column let a value pass that is a whole number or a text."""
    if column.allowed:
        return value in column.allowed
    if isinstance(value, str):
        return column.min_length == 0
    low = column.min is None or column.min <= value
    return low and (column.max is None or value <= column.max)


def _warn_of_no_values(data: config.Data, made: manifest.Manifest) -> list[str]:
    """Returns a line for each column of which train has no value: where a column has some only in
    rows that are dropped for want of a label, a first config cannot know it."""
    train = made.statistics.get("train")
    columns = train.columns if train and made.splits["train"].records else {}
    empty = {name: one for name, one in columns.items() if name in data.columns and not one.count}
    return [
        f"column {name!r} {_describe_nothing(one)} in train: nothing is learned from its features"
        for name, one in empty.items()
        if name not in data.every_label
    ]


def _describe_nothing(found: manifest.ColumnStatistics) -> str:
    """Says what a column without values has; lists may be there, and empty."""
    return "has only empty lists" if found.lengths and found.lengths.count else "has no value"


def _warn_of_small_shards(data: config.Data, made: manifest.Manifest) -> list[str]:
    """Returns a line for each split that was given more shards than it has full blocks."""
    default, lines = config.Data.model_fields["shards"].default, []
    if data.in_place:
        return []
    for name, split in made.splits.items():
        most = max(1, split.records // made.block_records)
        if len(split.shards) > most and len(split.shards) != default.get(name):
            lines.append(
                f"{name} has {len(split.shards):,} shards for {split.records:,} records: "
                f"each is a file to write, open and check, and holds less than a block of "
                f"{made.block_records} records. Set data.shards.{name} to {most:,} or less"
            )
    return lines


def _has_classes(column: config.Column) -> bool:
    return column.type == "string" or column.vocabulary is not None
