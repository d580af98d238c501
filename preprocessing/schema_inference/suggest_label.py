"""Which column could be the label, and which the key: guesses for a person to look over."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pipeline import errors
from preprocessing.schema_inference import traits
from preprocessing.schema_inference.heuristics import SuggestedColumn, limit_classes
from preprocessing.schema_inference.profile import FEW, ColumnProfile, Survey
from preprocessing.schema_inference.raw_format import Guess
from preprocessing.sources import csv_numbers

# Columns that an error names, and values.
_COLUMNS, _SHOWN = 20, 3
# The largest number of float32.
_LARGEST = 3.4028235e38
# Classes that a config names, at most.
LISTED = 1000
_ONE_COLUMN = (
    ". If the file has more, it has lines above its header, or a separator other than , ; | and tab"
)
_LABELS = ("label", "target", "class", "outcome", "y")
_OUTCOME = re.compile(
    r"(^|[^a-z])(is|has|target|label|class|outcome|churn(ed)?|surviv(ed|al)|fraud|default(ed)?|click"
    r"(ed)?|convert(ed)?|return(ed)?|price|sales|revenue|rating|score|delay|duration)($|[^a-z])",
    re.IGNORECASE,
)
_CALENDAR = re.compile(
    r"(^|[^a-z])(year|quarter|month|week(day)?|day|hour|minute|second|date|time|id)($|[^a-z])",
    re.IGNORECASE,
)


def suggest_key(columns: Mapping[str, ColumnProfile], rows: int) -> str | None:
    """Returns the column that names rows, if one is called so and does."""
    named = (n for n, found in columns.items() if traits.is_key(n, found, rows))
    return next(named, None)


def suggest_label(columns: Mapping[str, ColumnProfile], rows: int) -> tuple[str, str]:
    """Returns the column that is most likely to be predicted, and why it is."""
    single = {n: f for n, f in columns.items() if not f.lengths} or dict(columns)
    usable = {
        n: f
        for n, f in single.items()
        if not (traits.is_personal(n, f) or _CALENDAR.search(n) or _explain_no_label(f))
    }
    classes = [
        n for n, f in usable.items() if traits.is_class(f) or traits.find_threshold(f) is not None
    ]
    pairs = [
        n for n in classes if not traits.is_class(f := usable[n]) or len(f.different or ()) == 2
    ]
    numbers = [n for n, f in usable.items() if f.kind != "string" and not traits.is_name(f, rows)]
    named = [
        n
        for n, f in single.items()
        if f.kind != "string" or f.strays or not traits.occurs_rarely(f)
    ]
    for found, why in (
        ([n for wanted in _LABELS for n in named if n.lower() == wanted], "by its name"),
        ([n for n in classes if _OUTCOME.search(n)][-1:], "its name is an outcome's"),
        ([n for n in numbers if _OUTCOME.search(n)][-1:], "its name is an outcome's"),
        (pairs[-1:], "the last of two values"),
        (classes[-1:], "the last of few values"),
        (numbers[-1:], "the last number"),
    ):
        if found:
            return found[0], f"a guess: {why}"
    last = [n for n, f in single.items() if not _explain_no_label(f)] or list(single)
    return last[-1], "a guess: the last column"


@dataclasses.dataclass(frozen=True)
class Choice:
    """The label, why it is that, and the column that identifies rows, if there is one; `others` are
    labels besides the first."""

    label: str
    why: str
    key: str | None
    others: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels."""
        return (self.label, *self.others)


def choose(guess: Guess, found: Survey, chosen: str = "") -> Choice:
    """Returns the label, which is the `chosen` column if there is one, and the key; classes that
    are written as 1.0 are whole numbers from here on. Raises
    `UsageError` for a column that cannot be a label."""
    columns = {n: c for n, c in found.columns.items() if n not in guess.left_out}
    row_key = suggest_key(columns, found.rows)
    if not chosen:
        single = {n: c for n, c in columns.items() if not c.listed}
        others = {n: c for n, c in single.items() if n != row_key} or single
        guessed, why = suggest_label(others, found.rows)
        _refuse(f"label {guessed!r} ({why})", columns[guessed], guess)
        found.columns[guessed] = traits.convert_to_classes(columns[guessed])
        return Choice(guessed, why, row_key)
    names = parse_labels(chosen, columns)
    for name in names:
        _check_chosen(name, guess, columns)
        found.columns[name] = traits.convert_to_classes(columns[name])
    row_key = None if row_key in names else row_key
    return Choice(names[0], "chosen by LABEL=", row_key, names[1:])


def _check_chosen(name: str, guess: Guess, columns: Mapping[str, ColumnProfile]) -> None:
    """Raises `UsageError` for a column that was chosen and cannot be a label."""
    check_label(name, guess, columns)
    column = columns[name]
    if column.listed:
        raise errors.UsageError(f"LABEL={name}: is a list, and a label is one value")
    _refuse(f"LABEL={name}", column, guess)
    if column.kind == "string" and traits.occurs_rarely(column):
        raise errors.UsageError(
            f"LABEL={name}: {column.count_of_different:,} different texts in {column.values:,} "
            "rows: fewer than 2 rows each on average, too few to learn from; choose a column with "
            "more rows for each value, or numbers"
        )


def parse_labels(chosen: str, columns: Collection[str]) -> tuple[str, ...]:
    """Returns the labels that `LABEL=` names: one column, or several with commas between them.
    Raises `UsageError` for one that is there twice."""
    if not chosen or chosen in columns or "," not in chosen:
        return (chosen,) if chosen else ()
    names = tuple(name.strip() for name in chosen.split(",") if name.strip())
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise errors.UsageError(f"LABEL={chosen}: names {twice!r} twice")
    return names


def _explain_no_label(found: ColumnProfile) -> str:
    """Returns why values are neither numbers nor classes, if they are none."""
    if found.count_of_different <= traits.FEW or not (
        one := next(iter(traits.list_some(found)), "")
    ):
        return ""
    dates = found.as_dates
    if (found.kind == "string" and (dates.form or dates.mixed)) or dates.compact:
        return (
            f"dates, such as {one!r}; to predict when, write the days from a fixed one as a "
            "number, else a class such as the month"
        )
    if large := describe_too_large(found):
        return large
    if traits.has_unit(found):
        return (
            f"numbers with a sign or unit, such as {one!r}; write them without to predict a number"
        )
    return ""


def _refuse(where: str, label: ColumnProfile, guess: Guess) -> None:
    """Raises `UsageError` for values that could be a label if they were written otherwise."""
    if why := _explain_no_label(label):
        raise errors.UsageError(f"{where}: {why}")
    if label.strays:
        what = remark_on_strays(label)
        # One of them may be a name.
        doubt = f" ({'; '.join(guess.remarks)})" if guess.remarks else ""
        raise errors.UsageError(f"{where}: {what}; correct these or remove the rows{doubt}")


def remark_on_strays(column: ColumnProfile) -> str:
    """Returns which few values alone keep a column from being numbers, and how often."""
    numbers = column.by_kind["float32"]
    wrong = abbreviate(numbers.refused_values, last=column.tokens)
    return f"{numbers.refused:,} of {column.values:,} values cannot be read as float32: {wrong}"


def describe_too_large(column: ColumnProfile) -> str:
    """Returns which numbers float32 cannot hold, if it is for many such that a column is text."""
    refused = column.by_kind["float32"].refused_values
    if len(refused) <= FEW or not all(map(_is_too_large, refused)):
        return ""
    return (
        f"numbers beyond {_LARGEST:.2g}, where float32 ends, such as {abbreviate(refused)}; write "
        "them in a larger unit"
    )


def _is_too_large(text: str) -> bool:
    try:
        return abs(float(text)) > _LARGEST
    except ValueError:
        return False


def abbreviate(texts: Iterable[str], *, last: Collection[str] = ()) -> str:
    """Returns the first of some texts, for a message; those of `last` behind others."""
    ordered = sorted(texts, key=lambda text: (text in last, text))
    return ", ".join(map(repr, ordered[:_SHOWN])) + (", …" if len(ordered) > _SHOWN else "")


def check_label(label: str, guess: Guess, columns: Collection[str]) -> None:
    """Raises `UsageError` for a label that is not among the columns."""
    names = list(columns)
    if label in names:
        return
    why = guess.left_out.get(label)
    near = errors.suggest(label, names)
    listed = ", ".join(names[:_COLUMNS])
    more = f" and {len(names) - _COLUMNS:,} more" if len(names) > _COLUMNS else ""
    raise errors.UsageError(
        f"LABEL={label}: {f'it {why}' if why else 'no such column'}{near}"
        f"{'' if near else f'; there are {listed}{more}'}"
        f"{_ONE_COLUMN if len(names) == 1 and not why else ''}"
    )


def allow_missing(made: SuggestedColumn, found: ColumnProfile, *, several: bool) -> None:
    """Says what happens to rows without the label: they are dropped, or if there are `several`
    teach the others. Where -1 is a value, nothing could stand for none."""
    if found.missing:
        made.rules["missing"] = "drop" if drops_rows(found, several=several) else "allow"
        made.rules.pop("default", None)


def drops_rows(found: ColumnProfile, *, several: bool) -> bool:
    """Tells if rows without the label are dropped; `several` tells if there are other labels."""
    taken = found.kind == "int64" and (found.about.least or 0) < 0
    return bool(found.missing) and (taken or not several)


def list_classes(made: SuggestedColumn, found: ColumnProfile) -> None:
    """Makes the column a label. Classes that it names are known, also those that train happens to
    lack.

    Only a vocabulary that is declared is sure to be counted whole.
    """
    made.rules.pop("vocabulary", None)
    if traits.is_numbered(found):
        made.rules |= limit_classes(found)
    if found.kind != "string" and not traits.is_class(found):
        return
    few = found.different is not None and len(found.different) <= LISTED and not found.lengths
    if few and not traits.is_numbered(found) and "sensitive" not in made.rules:
        made.rules["allowed"] = sorted(
            {_parse_value(value, found) for value in found.different or ()}
        )
    elif "allowed" not in made.rules:
        made.rules["vocabulary"] = {}


def _parse_value(value: Any, found: ColumnProfile) -> int | str:
    """Returns a text, or the whole number that a text stands for."""
    text = traits.format_value(value)
    if found.kind == "string":
        return text
    if not isinstance(value, bytes):
        return int(value)
    return int(csv_numbers.normalize_text(text, found.csv).partition(".")[0])
