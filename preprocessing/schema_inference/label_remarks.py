"""What to know of the label: which task was taken, and which classes look like slips."""

from __future__ import annotations

import collections

from preprocessing.schema_inference import suggest_label, traits
from preprocessing.schema_inference.profile import ColumnProfile

# In a table of so many rows, a class of a single row is no class.
_MANY = 200
# Groups of spellings that are named.
_SHOWN = 3


def find_remarks(name: str, label: ColumnProfile) -> list[str]:
    """Returns remarks on the values of the label, a line each."""
    different = label.different
    if different is None:
        return []
    if traits.is_constant(label):
        one = traits.format_value(next(iter(different)))
        return [f"the label {name!r} is always {one!r}: there is nothing to learn"]
    if traits.is_personal(name, label):
        return []
    return [
        *_remark_on_task(name, label),
        *_remark_on_missing(name, label),
        *_remark_on_spellings(name, label),
        *_remark_on_single(name, label),
    ]


def describe_dropped_rows(name: str, label: ColumnProfile, rows: int) -> str:
    """Returns that rows without the label are dropped, how many of all `rows`, and what to do."""
    share = (
        f" ({label.missing / rows:.1%})".replace("%", " %") if label.missing > rows / 1000 else ""
    )
    return (
        f"the label {name!r} is missing in {label.missing:,} of {rows:,} rows{share}: make "
        f"preprocess drops these (data.columns.{name}.missing: drop). If missing means a value, "
        "such as 0 or no, write it in the raw data; else make predict predicts them"
    )


def _remark_on_task(name: str, label: ColumnProfile) -> list[str]:
    """Returns what whole numbers of many values were taken for, and how to have the other."""
    numbers = f"the label {name!r} has {len(label.different or ())} different whole numbers"
    if traits.find_threshold(label) is not None:
        least, greatest = traits.find_two_numbers(label)
        return [
            f"the label {name!r} has two values: 0 stands for {least:g} in reports and "
            f"predictions, 1 for {greatest:g}"
        ]
    if traits.is_amount(label):
        return [
            f"{numbers}, and neighbours are about as frequent: taken for an amount. If they are "
            f"classes, write label: {{vocabulary: true}}, vocabulary: {{}} in data.columns.{name}, "
            f"and model.params.classes: {len(label.different or ())} in place of task, offset and "
            "scale, and remove eval"
        ]
    pointed = label.classes and len(label.different or ()) > 2
    if label.kind != "int64" or not (pointed or len(label.different or ()) > traits.FEW):
        return []
    if not traits.is_class(label):
        return []
    why = "written like 1.0" if pointed else "and neighbours are not about as frequent"
    scaled = ", ".join(f"{key}: {value:g}" for key, value in traits.compute_scaling(label).items())
    other = (
        "" if traits.is_numbered(label) else f", and remove label and data.columns.{name}.allowed"
    )
    return [
        f"{numbers}, {why}: taken for classes. If they are an "
        f"amount, write task: regression, {scaled} in place of classes in model.params, and eval: "
        f"{{metric: average_loss, higher_is_better: false}}{other}"
    ]


def _remark_on_missing(name: str, label: ColumnProfile) -> list[str]:
    """Returns classes that are what people write where there is no value."""
    classes = set(label.list_texts())
    if label.kind != "string" or not (absent := classes & label.tokens):
        return []
    listed = suggest_label.abbreviate(classes, last=absent)
    stand, them = ("stands", "it") if len(absent) == 1 else ("stand", "them")
    return [
        f"the label {name!r} has {len(classes):,} classes: {listed}. Of these "
        f"{suggest_label.abbreviate(absent)} often {stand} for no value. If so, leave {them} "
        "empty in the raw data and run make schema again: rows without a label are dropped"
    ]


def _remark_on_spellings(name: str, label: ColumnProfile) -> list[str]:
    """Returns classes that are equal but for case and spaces."""
    if label.kind != "string":
        return []
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for value in label.different or ():
        text = traits.format_value(value)
        groups[" ".join(text.split()).casefold()].append(text)
    alike = [sorted(texts) for texts in groups.values() if len(texts) > 1]
    if not alike:
        return []
    shown = "; ".join(suggest_label.abbreviate(texts) for texts in alike[:_SHOWN])
    more = f"; and {len(alike) - _SHOWN:,} more" if len(alike) > _SHOWN else ""
    return [
        f"classes of the label {name!r} differ in case or spaces only: {shown}{more}. If they are "
        "the same, write them alike in the raw data"
    ]


def _remark_on_single(name: str, label: ColumnProfile) -> list[str]:
    """Returns classes that only one of many rows has."""
    if label.values < _MANY or not (label.kind == "string" or traits.is_class(label)):
        return []
    once = [traits.format_value(value) for value, n in (label.different or {}).items() if n == 1]
    if not once:
        return []
    have = "has" if len(once) == 1 else "have"
    return [
        f"{len(once):,} of {len(label.different or ()):,} classes of the label {name!r} {have} one "
        f"row of {label.values:,}: {suggest_label.abbreviate(once)}. No model can learn them; "
        "remove these rows if they are none, such as totals"
    ]
