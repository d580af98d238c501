"""What makes a run one of another model than a config describes, though both have one name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pipeline import storage
from pipeline.steps import NotImported

if TYPE_CHECKING:
    from pipeline.config import Column, Config, Data
    from pipeline.config.feature_config import Feature

# Columns or features that a line names.
_NAMED = 3


def differences(job: Config, of_run: Config) -> list[str]:
    """Returns in words what differs between a config and that of a run: inputs, label, columns,
    features and the name of the model. How it is trained does not count, nor do rules of columns,
    params of the model, and columns of which nothing is made."""
    return list(_find_differences(job, of_run))


def list_inputs(data: Data) -> dict[str, str]:
    """Returns where the rows of a config are from, by key: the paths as they are written, from the
    folder of the config. Which files match a pattern does not count."""
    files = {
        f"data.inputs.{split}.{name}": path if storage.is_remote(path) else os.path.realpath(path)
        for split, paths in data.inputs.items()
        for name, path in paths.items()
    }
    return files | ({"data.input_fn": data.input_fn} if data.input_fn else {})


def compare_inputs(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Returns in words the first input that differs, empty for none."""
    for key in (*ours, *theirs):
        if ours.get(key) != theirs.get(key):
            given, wanted = (repr(one[key]) if key in one else "absent" for one in (theirs, ours))
            return f"its {key} is {given}, not {wanted}"
    return ""


def compare_columns(ours: Mapping[str, Column], theirs: Mapping[str, Column]) -> str:
    """Returns in words the columns that differ in what a value of them is, empty for none."""
    names = _name_differences(
        *({name: _describe_kind(one) for name, one in of.items()} for of in (ours, theirs))
    )
    return f"it has other columns ({names})" if names else ""


def _find_differences(job: Config, of_run: Config) -> Iterator[str]:
    if other := compare_inputs(*(list_inputs(one.data) for one in (job, of_run))):
        yield other
    ours, theirs = (one.data.labels or (one.data.label,) for one in (job, of_run))
    if ours != theirs:
        yield f"its label is {_join_names(theirs)}, not {_join_names(ours)}"
    elif job.label.threshold != of_run.label.threshold:
        yield f"its label.threshold is {of_run.label.threshold}, not {job.label.threshold}"
    if job.model.name != of_run.model.name:
        yield f"its model is {of_run.model.name!r}, not {job.model.name!r}"
    both: list[Mapping[str, Column]] = [one.data.columns for one in (job, of_run)]
    if job.features and of_run.features:
        both = [{n: of[n] for n in of if all(n in other for other in both)} for of in both]
    if other := compare_columns(both[0], both[1]):
        yield other
    features, known = (
        {n: _list_parts(f) for n, f in one.features.items()} for one in (job, of_run)
    )
    if names := _name_differences(features, known):
        yield f"it has other features ({names})"


def _describe_kind(column: object) -> tuple[object, ...]:
    return tuple(getattr(column, key) for key in ("type", "shape", "list"))


def _list_parts(feature: Feature) -> tuple[object, ...]:
    """Returns what a feature is made of; of a step whose class is not imported, its name, as its
    settings may have defaults that only one of two configs spells out."""
    steps = [one.step if isinstance(one, NotImported) else one for one in feature.steps]
    return feature.of, steps, feature.embedding, feature.part


def _name_differences(ours: Mapping[str, object], theirs: Mapping[str, object]) -> str:
    names = [
        n for n in {**ours, **theirs} if n not in ours or n not in theirs or ours[n] != theirs[n]
    ]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


def _join_names(labels: tuple[str, ...]) -> str:
    return ", ".join(map(repr, labels))
