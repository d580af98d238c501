"""The two towers of `two_tower`: which features each can have, and what depends on that."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline import errors
from pipeline.config import model_config
from pipeline.config.feature_config import Feature
from pipeline.config.model_config import TwoTower

MODEL = "two_tower"
SIDES = USER, ITEM = "user", "item"
# Steps of which it is known without a graph which id a value gets.
COUNTED = ("vocabulary", "identity")


def check(job: Any) -> None:
    """Raises `ValueError` for towers that cannot be, and for what else the model does not do."""
    if job.model.name != MODEL:
        return
    settings: TwoTower = model_config.settings(MODEL, job.model.params)
    problems = itertools.chain(
        _of_sides(settings, job.features),
        _of_columns(settings, job.features, job.data.columns),
        _of_item_id(settings, job.features, job.data.columns),
        _of_sections(job),
    )
    for problem in problems:
        raise ValueError(problem)


def sides(params: Mapping[str, Any], planned: Iterable[Any]) -> dict[str, list[Any]]:
    """Returns the features of each tower, by its name, of planned features in order."""
    every = list(planned)
    return {side: [one for one in every if one.name in params[side]] for side in SIDES}


def columns(
    params: Mapping[str, Any], features: Mapping[str, Feature], known: Mapping[str, Any]
) -> list[list[str]]:
    """Returns the columns of each tower."""
    return [list(columns_of(params[side], features, known)) for side in SIDES]


def columns_of(
    names: Iterable[str], features: Mapping[str, Feature], columns: Mapping[str, Any]
) -> dict[str, str]:
    """Returns the columns that features are made of, through others or not, each with the first of
    `names` that it is for."""
    found: dict[str, str] = {}
    for name in names:
        left = [name]
        while left:
            now = left.pop()
            for given in features[now].reads(now):
                if given in columns:
                    found.setdefault(given, name)
                elif given in features:
                    left.append(given)
    return found


def _of_sides(settings: TwoTower, features: Mapping[str, Feature]) -> Iterator[str]:
    for side in SIDES:
        names = getattr(settings, side)
        key = f"model.params.{side}"
        if not names:
            yield f"{key}: names no feature; the tower needs one of {', '.join(features)}"
        for name in names:
            if name not in features:
                near = errors.nearest(name, features)
                yield f"{key}: {name!r} is not a feature{near}; features: {', '.join(features)}"
            if names.count(name) > 1:
                yield f"{key}: {name!r} is there twice"
    for name in features:
        if name in settings.user and name in settings.item:
            yield f"model.params: {name!r} is of both user and item; leave it in one"
        if name not in settings.user and name not in settings.item:
            yield (
                f"model.params: the feature {name!r} is of neither user nor item; add it to one, "
                "or remove it"
            )


def _of_columns(
    settings: TwoTower, features: Mapping[str, Feature], columns: Mapping[str, Any]
) -> Iterator[str]:
    user, item = (columns_of(names, features, columns) for names in (settings.user, settings.item))
    for name in user:
        if name in item:
            yield (
                f"model.params: column {name!r} is in {user[name]!r} of the user and in "
                f"{item[name]!r} of the item, by which a user knows its own item in a batch; leave "
                "it to one of them"
            )


def _of_item_id(
    settings: TwoTower, features: Mapping[str, Feature], columns: Mapping[str, Any]
) -> Iterator[str]:
    name, key = settings.item_id, "model.params.item_id"
    if name is None:
        if settings.log_q:
            yield (
                "model.params.log_q: counts how often an item is there, and item_id is not set; "
                f"write item_id: {settings.item[0]}, say"
            )
        return
    if name not in settings.item:
        near = errors.nearest(name, settings.item)
        yield f"{key}: {name!r} is not in item{near}; item has {', '.join(settings.item)}"
        return
    steps, inputs = features[name].steps, features[name].inputs(name)
    listed = any(c in columns and (columns[c].list or columns[c].shape) for c in inputs)
    one = steps and steps[-1].gives == "ids" and not any(s.ids_of_each > 1 for s in steps)
    if listed or not one:
        yield f"{key}: {name!r} is not one id a row; name a feature that is"
    counted = len(steps) == 1 and steps[0].step in COUNTED and inputs[0] in columns
    if settings.log_q and not counted:
        yield (
            f"model.params.log_q: how often an id of {name!r} is there is known of a column behind "
            f"one step, {' or '.join(COUNTED)}; write that, or log_q: false"
        )


def _of_sections(job: Any) -> Iterator[str]:
    if job.eval.group is not None:
        yield f"eval.group: is for probabilities of two classes, and {MODEL} gives none"
    if job.eval.slices:
        yield f"eval.slices: are for classes and numbers, and {MODEL} predicts neither"
    sample = job.data.sample
    if sample is not None and sample.correct == "logits":
        yield (
            f"data.sample: correct: logits is for classes, and {MODEL} predicts none; write "
            "correct: weights"
        )
    top = job.eval.top_k
    known = ("loss", "average_loss", f"hit_rate@{top}", f"mrr@{top}")
    if job.eval.metric not in known:
        near = errors.nearest(job.eval.metric, known)
        yield (
            f"eval.metric: {MODEL} does not report {job.eval.metric!r}{near}; it has "
            f"{', '.join(known)}"
        )
