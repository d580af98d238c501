"""Compares two sets of records, or two splits of one, column by column."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from pipeline import config, errors, storage
from pipeline.config import config_file
from pipeline.config.drift_config import Drift
from pipeline.records import builds, distances, in_place, manifest
from pipeline.records.distances import Distance
from pipeline.runs import run_folder

# Columns that an error names.
_NAMED = 4


@dataclasses.dataclass(frozen=True)
class RecordSplit:
    """One split of a set of records."""

    name: str
    contents: manifest.Manifest
    split: str

    @property
    def records(self) -> int:
        """How many there are."""
        return self.contents.splits[self.split].records

    def column(self, name: str) -> manifest.ColumnStatistics:
        """Returns the statistics of a column."""
        return self.contents.statistics[self.split].columns[name]


@dataclasses.dataclass(frozen=True)
class Compared:
    """One column of both. `distance` is in terms of `measure`, `JS` or `KS`.

    `lengths` is that of how many items the lists have, by `KS`. `missing` are the shares of missing
    values in A and B, `not_finite` those of values that are NaN or infinite. Limits include what
    chance does.
    `problem` says why there is nothing to compare; if that itself is a change, it is `broken`.
    """

    column: str
    measure: str = ""
    distance: Distance | None = None
    limit: float = 1.0
    lengths: Distance | None = None
    lengths_limit: float = 1.0
    missing: tuple[float, float] = (0.0, 0.0)
    missing_limit: float = 1.0
    not_finite: tuple[float, float] = (0.0, 0.0)
    not_finite_limit: float = 1.0
    problem: str = ""
    broken: bool = False

    @property
    def drifted(self) -> bool:
        """Tells if a limit is crossed for certain."""
        far = any(distance.least > limit for distance, limit in self._distances)
        changed = any(change > limit for change, limit in self._changes)
        return self.broken or far or changed

    @property
    def undecided(self) -> bool:
        """Tells if statistics as rough as these cannot say whether the limit is crossed."""
        far = any(distance.greatest > limit for distance, limit in self._distances)
        return far and not self.drifted

    @property
    def severity(self) -> float:
        """How many times the limit it is: values, lengths, missing values or those that are not
        finite, whichever is worst."""
        far = [(distance.middle, limit) for distance, limit in self._distances]
        return max(much / max(limit, 1e-9) for much, limit in (*far, *self._changes))

    @property
    def _distances(self) -> list[tuple[Distance, float]]:
        pairs = ((self.distance, self.limit), (self.lengths, self.lengths_limit))
        return [(distance, limit) for distance, limit in pairs if distance is not None]

    @property
    def _changes(self) -> list[tuple[float, float]]:
        pairs = ((self.missing, self.missing_limit), (self.not_finite, self.not_finite_limit))
        return [(abs(after - before), limit) for (before, after), limit in pairs]

    @property
    def remark(self) -> str:
        """What there is to say besides the distance of the values and the missing ones."""
        remarks = [self.problem] if self.problem else []
        if self.lengths is not None:
            remarks.append(f"items a row KS {self.lengths}, limit {self.lengths_limit:.3f}")
        if any(self.not_finite):
            before, after = self.not_finite
            shares = f"not finite in A {before:.2%}, in B {after:.2%}"
            remarks.append(f"{shares}, limit {self.not_finite_limit:.2%}")
        return "; ".join(remarks)


def find(name: str, storage_root: str) -> RecordSplit:
    """Returns the split that `name` means: of records by name, or of a folder (with a `/`).

    `flights` and `flights:train` are the same, `flights:eval` is another. Raises `DataError` if
    there are no such records, or none with statistics.
    """
    records, split = name, "train"
    before, _, last = name.rpartition(":")
    if before and last in config.SPLITS:
        records, split = before, last
    folder = builds.find_current(
        records if "/" in records else run_folder.records_folder(storage_root, records)
    )
    if "/" not in records and not storage.exists(manifest.path_in(folder)):
        config_name = records if records in config_file.list_shipped() else "config.yaml"
        raise errors.DataError(
            f"{name!r}: there are no records {records!r} below {storage_root!r}. Make them: "
            f"make preprocess CONFIG={config_name}"
        )
    contents = manifest.read(folder)
    contents.split(split)
    in_place.check_statistics(folder, contents, split)
    return RecordSplit(name, contents, split)


def compare(a: RecordSplit, b: RecordSplit, limits: Drift) -> list[Compared]:
    """Returns all columns, what drifted first and the farthest apart before others. Those that
    identify rows are new in each set, and are compared only if they have limits of their own.

    Raises `UsageError` for limits of columns that neither side has.
    """
    names = {**a.contents.columns, **b.contents.columns}
    for name in (*limits.columns, *limits.ignore):
        if name not in names:
            raise errors.UsageError(
                f"drift: {name!r} is not a column of {a.name} or {b.name}"
                f"{errors.suggest(name, names)}"
            )
    keys = {*(a.contents.key or ()), *(b.contents.key or ())} - {*limits.columns}
    compared = [name for name in names if name not in {*limits.ignore, *keys}]
    found = [_compare(name, a, b, limits=limits) for name in compared]
    return sorted(
        found, key=lambda one: (not one.drifted, not one.undecided, -one.severity, one.column)
    )


def _compare(name: str, a: RecordSplit, b: RecordSplit, *, limits: Drift) -> Compared:
    columns = [side.contents.columns.get(name) for side in (a, b)]
    if columns[0] is None or columns[1] is None:
        where = f"A ({a.name})" if columns[1] is None else f"B ({b.name})"
        return Compared(name, problem=f"only in {where}", broken=True)
    if _describe_kind(columns[0]) != _describe_kind(columns[1]):
        problem = f"{_format_type(columns[0])} in {a.name}, {_format_type(columns[1])} in {b.name}"
        return Compared(name, problem=problem, broken=True)
    one, other = a.column(name), b.column(name)
    own = limits.columns.get(name)
    shares = (
        distances.compute_missing_share(one, columns[0]),
        distances.compute_missing_share(other, columns[1]),
    )
    chance = distances.bound_missing_by_chance(
        share_a=shares[0], n=a.records, share_b=shares[1], m=b.records
    )
    broken = distances.compute_not_finite_share(one), distances.compute_not_finite_share(other)
    broken_chance = distances.bound_missing_by_chance(
        share_a=broken[0], n=one.count, share_b=broken[1], m=other.count
    )
    allowed = limits.missing if own is None or own.missing is None else own.missing
    measure, distance, limit = _compute_distance(columns[0], one, other, limits=limits)
    if own is not None and own.distance is not None:
        limit = own.distance
    lengths, lengths_limit = _compare_lengths(one, other)
    of_lists = limits.lengths if own is None or own.lengths is None else own.lengths
    return Compared(
        name,
        measure,
        distance,
        max(limit, _bound_by_chance(measure, one, other)),
        lengths,
        max(of_lists, lengths_limit),
        missing=shares,
        missing_limit=max(allowed, chance),
        not_finite=broken,
        not_finite_limit=max(allowed, broken_chance),
        problem="" if distance else _explain_missing_distance(columns[0], one, other),
    )


def _describe_kind(column: config.Column) -> tuple[str, bool]:
    kind = column.type if column.type in ("string", "image") else "number"
    return kind, column.list


def _format_type(column: config.Column) -> str:
    return f"a list of {column.type}" if column.list else column.type


def _compute_distance(
    column: config.Column,
    one: manifest.ColumnStatistics,
    other: manifest.ColumnStatistics,
    *,
    limits: Drift,
) -> tuple[str, Distance | None, float]:
    """Takes categories for what they are: text, and numbers that have a vocabulary, if the values
    of both are counted."""
    counted = one.vocabulary is not None and other.vocabulary is not None
    if column.type == "string" or (column.vocabulary and counted):
        return "JS", distances.jensen_shannon(one, other), limits.categories
    return "KS", distances.kolmogorov_smirnov(one, other), limits.numbers


def _compare_lengths(
    one: manifest.ColumnStatistics, other: manifest.ColumnStatistics
) -> tuple[Distance | None, float]:
    """Returns how far apart the lengths of lists are, and what chance does; `None` of no lists."""
    if one.lengths is None or other.lengths is None:
        return None, 0.0
    by_chance = distances.bound_numbers_by_chance(one.lengths.count, other.lengths.count)
    return distances.kolmogorov_smirnov(one.lengths, other.lengths), by_chance


def _bound_by_chance(
    measure: str, one: manifest.ColumnStatistics, other: manifest.ColumnStatistics
) -> float:
    if measure == "KS":
        return distances.bound_numbers_by_chance(one.count, other.count)
    totals: collections.Counter[int | float | str] = collections.Counter()
    for side in (one, other):
        totals.update(dict(side.vocabulary or ()))
    return distances.bound_categories_by_chance(one.count, other.count, list(totals.values()))


def _explain_missing_distance(
    column: config.Column, one: manifest.ColumnStatistics, other: manifest.ColumnStatistics
) -> str:
    if not one.count or not other.count:
        return "no values"
    if one.count == one.not_finite or other.count == other.not_finite:
        return "no finite values"
    if column.sensitive:
        return "sensitive, so its values are not compared"
    if column.vocabulary is not None:
        empty = [side for side, found in (("A", one), ("B", other)) if not found.vocabulary]
        return f"no value is frequent enough for its vocabulary, in {' and '.join(empty)}"
    return "its values are not counted"


def table(found: Sequence[Compared], a: RecordSplit, b: RecordSplit) -> str:
    """Returns the comparison for people, one line a column."""
    width = max(len("column"), *(len(one.column) for one in found))
    lines = [
        f"A: {a.name} ({a.split}, {a.records:,} records)",
        f"B: {b.name} ({b.split}, {b.records:,} records)",
        f"{'column':{width}}  {'distance':>19}  {'limit':>6}  {'missing A':>9}  {'missing B':>9}",
    ]
    for one in found:
        distance = limit = ""
        if one.distance is not None:
            distance = f"{one.measure} {one.distance}"
            limit = f"{one.limit:.3f}"
        line = f"{one.column:{width}}  "
        if not one.broken:
            line += f"{distance:>19}  {limit:>6}"
            line += f"  {one.missing[0]:>9.2%}  {one.missing[1]:>9.2%}  "
        verdict = "drifted" if one.drifted else "undecided" if one.undecided else ""
        remarks = [text for text in (verdict, one.remark) if text]
        lines.append(f"{line}{': '.join(remarks)}".rstrip())
    return "\n".join(lines)


def check(found: Sequence[Compared], page: str) -> str:
    """Returns a line on what was found. Raises `DataError` naming the columns that drifted, the
    worst first."""
    drifted = [one.column for one in found if one.drifted]
    if drifted:
        more = ", ..." if len(drifted) > _NAMED else ""
        raise errors.DataError(
            f"{len(drifted)} of {len(found)} columns have drifted: "
            f"{', '.join(drifted[:_NAMED])}{more}. See {page}; limits are in the config under drift"
        )
    open_ = [one.column for one in found if one.undecided]
    if open_:
        return (
            f"no column has drifted for certain; undecided, because their distance is known only "
            f"roughly: {', '.join(open_)}. See {page}"
        )
    return f"no column has drifted; see {page}"
