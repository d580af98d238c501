"""Names that TensorFlow takes, for columns and features, which may be called anything."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable


def name_arguments(columns: Iterable[str]) -> dict[str, str]:
    """Returns for each column a name of its own that an argument may have, in a signature of
    TensorFlow 2."""
    return _make_distinct(columns, _name_argument)


def name_ops(columns: Iterable[str]) -> dict[str, str]:
    """Returns for each column a name of its own that an op or a layer may have."""
    return _make_distinct(columns, name_op)


def _make_distinct(columns: Iterable[str], form: Callable[[str], str]) -> dict[str, str]:
    """Returns `form` of each column, with a number where another's is equal but for case:
    TensorFlow renames the second of two ops whose names are."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in columns:
        name, number = form(column), 2
        while name.lower() in taken:
            name, number = f"{form(column)}_{number}", number + 1
        names[column] = name
        taken.add(name.lower())
    return names


def _name_argument(column: str) -> str:
    name = re.sub(r"\W", "_", column, flags=re.ASCII)
    taken = keyword.iskeyword(name) or name == "self"  # that of TensorFlow's own functions
    known = name.isidentifier() and not taken and not name.startswith("_")
    return name if known else f"column_{name}"


def name_op(column: str) -> str:
    """Returns a name an op may have."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", column)
    return name if re.match(r"[A-Za-z0-9.]", name) else f"column{name}"
