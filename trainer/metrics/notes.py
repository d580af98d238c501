"""What a reader of metrics must know of the records they are of: which metrics are not defined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainer.metrics.groups import Counts, names

# Of so many slices the names are listed.
_NAMED = 5


def undefined(
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
        f"{cause} {enumerated(slices)}: {', '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not defined there."
        for missing, slices in absent.items()
    ]


def groups(counts: Counts, column: str, top: int) -> Iterator[str]:
    """Yields what the groups by a column are, and which of them do not count."""
    area, *firsts = names(top)
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
    if counts.usable:
        yield (
            f"{counts.usable:,} of {counts.groups:,} groups by {column} hold both labels and count "
            f"in {area}, {', '.join(firsts)}; {counts.groups - counts.usable:,} are left out"
            f"{causes}."
        )
    else:
        yield (
            f"None of {counts.groups:,} groups by {column} holds both labels{causes}: {area}, "
            f"{', '.join(firsts)} are not defined."
        )
    if counts.short:
        yield (
            f"{counts.short:,} of these groups hold at most {top} records: every order has a hit "
            f"there, so their {firsts[-1]} is 1."
        )
    if counts.without:
        yield f"{counts.without:,} records have no {column} and are in no group."


def enumerated(slices: Sequence[str]) -> str:
    """Returns names of slices as text; of many, the first and how many more."""
    named = ", ".join("all records" if name == "all" else name for name in slices[:_NAMED])
    return named + (f" and {len(slices) - _NAMED} more" if len(slices) > _NAMED else "")
