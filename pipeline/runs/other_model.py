"""What makes a run one of another model than a config describes, though both have one name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pipeline.steps import NotImported

if TYPE_CHECKING:
    from pipeline.config import Config
    from pipeline.config.feature_config import Feature

# Columns or features that a line names.
_NAMED = 3


def differences(job: Config, of_run: Config) -> list[str]:
    """Returns in words what differs between a config and that of a run: label, columns, features
    and the name of the model. How it is trained does not count, nor do rules of columns, params of
    the model, and columns of which nothing is made."""
    return list(_differences(job, of_run))


def _differences(job: Config, of_run: Config) -> Iterator[str]:
    ours, theirs = (one.data.labels or (one.data.label,) for one in (job, of_run))
    if ours != theirs:
        yield f"its label is {_listed(theirs)}, not {_listed(ours)}"
    elif job.label.threshold != of_run.label.threshold:
        yield f"its label.threshold is {of_run.label.threshold}, not {job.label.threshold}"
    if job.model.name != of_run.model.name:
        yield f"its model is {of_run.model.name!r}, not {job.model.name!r}"
    columns, known = ({n: _kind(c) for n, c in one.data.columns.items()} for one in (job, of_run))
    if job.features and of_run.features:
        columns, known = (
            {n: k[n] for n in k if n in columns and n in known} for k in (columns, known)
        )
    if names := _unequal(columns, known):
        yield f"it has other columns ({names})"
    features, known = ({n: _made(f) for n, f in one.features.items()} for one in (job, of_run))
    if names := _unequal(features, known):
        yield f"it has other features ({names})"


def _kind(column: object) -> tuple[object, ...]:
    return tuple(getattr(column, key) for key in ("type", "shape", "list"))


def _made(feature: Feature) -> tuple[object, ...]:
    """Returns what a feature is made of; of a step whose class is not imported, its name, as its
    settings may have defaults that only one of two configs spells out."""
    steps = [one.step if isinstance(one, NotImported) else one for one in feature.steps]
    return feature.of, steps, feature.embedding, feature.part


def _unequal(ours: Mapping[str, object], theirs: Mapping[str, object]) -> str:
    names = [
        n for n in {**ours, **theirs} if n not in ours or n not in theirs or ours[n] != theirs[n]
    ]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


def _listed(labels: tuple[str, ...]) -> str:
    return ", ".join(map(repr, labels))
