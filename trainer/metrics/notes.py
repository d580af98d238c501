"""What a reader of metrics must know of the records they are of: which metrics are not defined,
and which are those of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.models.base import metrics_of_groups
from pipeline.records import manifest
from trainer.metrics.groups import GroupCounts

# The names of so many slices are listed.
_NAMED = 5


def describe_undefined(
    rows: Iterable[tuple[str, Mapping[str, object]]],
    metrics: Sequence[str],
    cause: str = "Only one label occurs in",
) -> list[str]:
    """Returns a sentence for each combination of `metrics` that are not defined in some slices.
    `rows` are slices with the metrics that they have; the `cause` is followed by slices."""
    absent: dict[tuple[str, ...], list[str]] = {}
    for slice_name, found in rows:
        missing = tuple(name for name in metrics if name not in found)
        if missing:
            absent.setdefault(missing, []).append(slice_name)
    return [
        f"{cause} {enumerate_slices(slices)}: {', '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not defined there."
        for missing, slices in absent.items()
    ]


def describe_sample(contents: manifest.Manifest) -> tuple[str, ...]:
    """Returns a sentence on metrics of train, if its records are a sample."""
    found = contents.sampled
    if found is None:
        return ()
    of_rows = found.describe(sensitive=contents.columns[found.column].sensitive)
    return (f"{of_rows} So calibration, log loss and others of train are not those of all rows.",)


def describe_groups(counts: GroupCounts, column: str, top: int) -> Iterator[str]:
    """Yields what the groups by a column are, and which of them do not count."""
    area, *firsts = metrics_of_groups(top)
    left_out = [
        f"{count:,} {what}"
        for count, what in (
            (counts.of_one, "of one record"),
            (counts.only_negative, "of more with negatives only"),
            (counts.only_positive, "of more with positives only"),
        )
        if count
    ]
    causes = f" ({', '.join(left_out)})" if left_out else ""
    every = f"{area}, {', '.join(firsts)}"
    if counts.usable:
        yield (
            f"Groups by {column} that hold both labels and count in {every}: {counts.usable:,} of "
            f"{counts.groups:,}; left out: {counts.groups - counts.usable:,}{causes}."
        )
    else:
        yield (
            f"Groups by {column} that hold both labels: none of {counts.groups:,}{causes}; {every} "
            "are not defined."
        )
    if counts.short:
        yield (
            f"Of these groups {counts.short:,} hold at most {top:,} records: every order has a hit "
            f"there, so their {firsts[-1]} is 1."
        )
    if counts.without:
        yield f"Records without {column}, in no group: {counts.without:,}."


def enumerate_slices(slices: Sequence[str]) -> str:
    """Returns names of slices as text; of many, the first and how many more."""
    named = ", ".join("all records" if name == "all" else name for name in slices[:_NAMED])
    return named + (f" and {len(slices) - _NAMED} more" if len(slices) > _NAMED else "")
