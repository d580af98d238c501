"""By which columns metrics may be broken down: `eval.slices` and `make evaluate SLICES=`; and by
which records may be grouped: `eval.group`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import errors


def check(names: Sequence[str], columns: Mapping[str, Any], where: str) -> None:
    """Raises `ValueError` for a column there is not, or whose values may not be shown.

    `columns` are `config.Column` by name; `where` says where the names were given.
    """
    for name in names:
        column = _find_column(name, columns, where)
        if column.sensitive or column.shape or column.list or column.is_image:
            raise ValueError(
                f"{where} {name!r}: must be a column of single values that is not sensitive"
            )


def check_group(name: str, columns: Mapping[str, Any], where: str) -> None:
    """Raises `ValueError` for a column there is not, or whose values cannot name groups."""
    column = _find_column(name, columns, where)
    if column.type not in ("int64", "string") or column.shape or column.list:
        shape = f" of shape {list(column.shape)}" if column.shape else ""
        shape = ", a list" if column.list else shape
        raise ValueError(
            f"{where} {name!r}: is {column.type}{shape}; it must be a column of single whole "
            "numbers or texts"
        )


def _find_column(name: str, columns: Mapping[str, Any], where: str) -> Any:
    if name not in columns:
        raise ValueError(
            f"{where} {name!r}: not one of the columns {', '.join(columns)}"
            f"{errors.suggest(name, columns)}"
        )
    return columns[name]
