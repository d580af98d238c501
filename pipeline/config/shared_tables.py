"""Tables of vectors that several features use: of which feature each is, and whether it can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline import errors
from pipeline.config.feature_config import Embedding, Feature
from pipeline.steps.base import Step
from pipeline.steps.categories import Vocabulary
from pipeline.steps.numbers import Clip

# The setting of a vocabulary that says whose it is.
_COLUMN = {"of"}


def tables(features: Mapping[str, Feature]) -> dict[str, str]:
    """Returns for each feature that shares a table the feature whose table that is."""
    users = {name: table for name, feature in features.items() if (table := _find_table(feature))}
    return {**users, **{table: table for table in users.values()}}


def resolve_width(feature: Feature, features: Mapping[str, Feature]) -> Feature:
    """Returns the feature with the width of the table it uses."""
    table, wanted = _find_table(feature), feature.embedding
    if table is None or not isinstance(wanted, Embedding):
        return feature
    size = wanted.model_copy(update={"size": _find_size(features[table])})
    return feature.model_copy(update={"embedding": size})


def check(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> None:
    """Raises `ValueError` for tables that cannot be shared: an id has to mean the same value to all
    who look it up, and has one vector."""
    for name, feature in features.items():
        table = _find_table(feature)
        if table is None:
            continue
        key = f"features.{name}.embedding.table"
        others = [other for other in features if other != name]
        if table not in others:
            what = "the feature itself; leave it out" if table == name else "no feature"
            raise ValueError(f"{key}: {table!r} is {what}{errors.suggest(table, others)}")
        owner = features[table]
        if (further := _find_table(owner)) is not None:
            raise ValueError(f"{key}: {table!r} uses the table of {further!r}; name that one")
        if isinstance(owner.embedding, str):
            raise ValueError(
                f"{key}: the width of {table!r} is {owner.embedding}, which may be no table; write "
                f"embedding: 16 in features.{table}, or another width"
            )
        _check_size(key, feature, table, owner=owner)
        _check_ids(key, (name, feature), (table, owner), columns=columns)


def _check_size(key: str, feature: Feature, table: str, *, owner: Feature) -> None:
    given = _find_size(feature)
    if given not in ("auto", _find_size(owner)):
        raise ValueError(
            f"{key}: the vectors of {table!r} have size {_find_size(owner)}, and size is {given}; "
            "leave size out"
        )


def _check_ids(
    key: str, user: tuple[str, Feature], owner: tuple[str, Feature], *, columns: Mapping[str, Any]
) -> None:
    own, other = _find_source(*user), _find_source(*owner)
    for found, (name, _) in ((own, user), (other, owner)):
        if found is None:
            raise ValueError(f"{key}: {name!r} has no step that gives ids, and so no table")
    assert own is not None and other is not None
    if own[1:] == other[1:]:
        before = [_find_meaning(*one) for one in (user, owner)]
        if before[0] != before[1]:
            shown = [_describe_steps(feature) for _, feature in (user, owner)]
            raise ValueError(
                f"{key}: {shown[0]} gives its ids, and {shown[1]} those of {owner[0]!r}: one id "
                f"would mean two values; write the steps of {owner[0]!r}, with their settings"
            )
        return
    step, wanted = own[0], other[0]
    column = wanted.statistics_of or owner[1].inputs(owner[0])[0]
    if isinstance(step, Vocabulary) and isinstance(wanted, Vocabulary) and column in columns:
        advice = f"write {{vocabulary: {{of: {column}}}}}, with the other settings of {owner[0]!r}"
    else:
        advice = f"write the step of {owner[0]!r}, with its settings"
    raise ValueError(
        f"{key}: {_describe_step(step, own[2])} gives its ids, and "
        f"{_describe_step(wanted, other[2])} those of {owner[0]!r}: one id would mean two values; "
        f"{advice}"
    )


def _find_source(name: str, feature: Feature) -> tuple[Step, dict[str, Any], Any] | None:
    """Returns the step that gives the ids, its settings, and of what its statistics are, if it
    needs any; `None` if no step gives ids."""
    places = [n for n, step in enumerate(feature.steps) if step.gives in ("ids", "bag")]
    if not places:
        return None
    step, before = feature.steps[places[-1]], feature.steps[: places[-1]]
    settings = step.model_dump(exclude=_COLUMN if isinstance(step, Vocabulary) else None)
    if step.statistics_of is not None:
        return step, settings, step.statistics_of
    if not (step.needs("text") or step.needs("integer")):
        return step, settings, None
    column = feature.inputs(name)[0]
    return step, settings, (column, *before) if before else column


def _find_meaning(name: str, feature: Feature) -> list[Any]:
    """Returns what of the steps before that which gives the ids says what values these are of: all
    but those that fill gaps or cut extremes; and the column whose statistics they are by, if any.
    A step whose statistics are of one column may be another of another column."""
    places = [n for n, step in enumerate(feature.steps) if step.gives in ("ids", "bag")]
    steps = [
        step
        for step in feature.steps[: places[-1]]
        if not step.fills_gaps and not isinstance(step, Clip)
    ]
    by_statistics = any(step.needs(kind) for step in steps for kind in step.takes)
    return [
        *(step.model_dump() for step in steps),
        *([feature.inputs(name)] if by_statistics else []),
    ]


def _describe_steps(feature: Feature) -> str:
    return ", ".join(_describe_step(step, None) for step in feature.steps) or "no step"


def _describe_step(step: Step, of: Any) -> str:
    excluded = {"step", *(_COLUMN if isinstance(step, Vocabulary) else ())}
    settings = step.model_dump(exclude=excluded, exclude_none=True, exclude_defaults=True)
    shown = ", ".join(f"{name}: {value}" for name, value in settings.items())
    column = of if isinstance(of, str) else of[0] if of else None
    return step.step + (f" {{{shown}}}" if shown else "") + (f" of {column!r}" if column else "")


def _find_table(feature: Feature) -> str | None:
    return feature.embedding.table if isinstance(feature.embedding, Embedding) else None


def _find_size(feature: Feature) -> Any:
    wanted = feature.embedding
    return wanted.size if isinstance(wanted, Embedding) else wanted
