"""The rule `dates` of a column and the step `date` of its features: they must not contradict each
other, and without the rule the step makes -1 of whatever it cannot read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from pipeline.config.feature_config import Feature
from pipeline.steps.date_forms import EPOCHS, Form
from pipeline.steps.dates import Date

# The forms in which steps read each column that has no rule.
Unruled: TypeAlias = Mapping[str, tuple[Form, ...]]
NONE: Unruled = {}


def check(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a step that reads dates in another form than its `config.Column`
    has."""
    for feature, name, form in _read(features, columns):
        rule = columns[name].dates
        if rule is not None and rule != form:
            raise ValueError(
                f"features.{feature}: date: form is {form}, and data.columns.{name}.dates is "
                f"{rule}: every date would be -1. Write the same form in both"
            )


def find_unruled(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> Unruled:
    """Returns the columns whose values the step `date` reads, and no rule checks."""
    found: dict[str, tuple[Form, ...]] = {}
    for _, name, form in _read(features, columns):
        numbers = form in EPOCHS and columns[name].type != "string"
        if columns[name].dates is None and not numbers:
            found[name] = (*found.get(name, ()), form)
    return {name: tuple(dict.fromkeys(forms)) for name, forms in found.items()}


def _read(
    features: Mapping[str, Feature], columns: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """Yields each feature that begins with a date, the column it reads, and in which form."""
    for feature, about in features.items():
        if about.steps and isinstance(about.steps[0], Date):
            for name in about.inputs(feature):
                if name in columns:
                    yield feature, name, about.steps[0].form
