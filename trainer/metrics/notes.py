"""What a reader of metrics must know of the records they are of: which metrics are not defined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# Of so many slices the names are listed.
_NAMED = 5


def undefined(rows: Iterable[tuple[str, Mapping[str, object]]], names: Sequence[str]) -> list[str]:
    """Returns a sentence for each combination of `names` that are not defined in some slices, for
    lack of one of two labels. `rows` are slices with their metrics."""
    absent: dict[tuple[str, ...], list[str]] = {}
    for slice_name, metrics in rows:
        missing = tuple(name for name in names if name not in metrics)
        if missing:
            absent.setdefault(missing, []).append(slice_name)
    return [
        f"Only one label occurs in {enumerated(slices)}: {', '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not defined there."
        for missing, slices in absent.items()
    ]


def enumerated(slices: Sequence[str]) -> str:
    """Returns names of slices as text; of many, the first and how many more."""
    named = ", ".join("all records" if name == "all" else name for name in slices[:_NAMED])
    return named + (f" and {len(slices) - _NAMED} more" if len(slices) > _NAMED else "")
