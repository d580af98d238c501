"""Whether features can be made, as far as the config alone tells: kinds, order, missing values.

A feature that gives the label away is refused too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline import errors
from pipeline.config import date_rules, list_weights, shared_tables
from pipeline.config.feature_config import Feature, Label
from pipeline.models.base import gives_ids
from pipeline.steps import STEPS, base
from pipeline.steps.base import NUMBERS, Kind, Step


@dataclasses.dataclass(frozen=True)
class _Point:
    """What the config alone tells of the values at one point of a feature.

    `known` are the statistics that the manifest may have, unless `forgotten_by` a step. `absent`
    tells that something stands for missing values; what that is is no longer known once `changed`
    by a step.
    """

    kind: Kind
    shape: tuple[int, ...]
    known: frozenset[base.Statistic]
    forgotten_by: str | None = None
    absent: bool = False
    changed: str | None = None
    listed: bool = False


def kind_of(column: Any) -> Kind:
    """Returns the kind of the values of a `config.Column`."""
    kinds: Mapping[str, Kind] = {
        "float32": "number",
        "int64": "integer",
        "string": "text",
        "uint8": "image",
        "image": "encoded",
    }
    return kinds[column.type]


def order_features(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> list[str]:
    """Returns the names of features, each after those it is made of. Raises `ValueError` if there
    is no such order, or for an input that is neither column nor feature."""
    done: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"features.{name}: made of itself, through {' <- '.join(path)}")
        for given in features[name].inputs(name):
            if given in columns:
                continue
            if given not in features or given == name:
                known = [*columns, *features]
                raise ValueError(
                    f"features.{name}: {given!r} is neither a column nor another feature"
                    f"{errors.suggest(given, [k for k in known if k != name])}; "
                    f"columns: {', '.join(columns)}"
                )
            visit(given, (*path, name))
        done[name] = None

    for name in features:
        visit(name, ())
    return list(done)


def check(
    features: Mapping[str, Feature], *, label: Label, data_label: str, columns: Mapping[str, Any]
) -> None:
    """Raises `ValueError` for features that cannot be made, and for such as give the label away."""
    if label.weight is not None:
        _check_weight(label.weight, data_label, columns)
    if label.threshold is not None and kind_of(columns[data_label]) not in NUMBERS:
        raise ValueError(f"label: threshold is for numbers, {data_label!r} is text")
    check_served(features, label=label, data_label=data_label, columns=columns)
    points: dict[str, _Point] = {}
    for name in order_features(features, columns):
        inputs = features[name].inputs(name)
        if data_label in inputs:
            raise ValueError(
                f"features.{name}: made of {data_label!r}, the label: a model would learn to read "
                "its answer; take it away"
            )
        others = [i for i in inputs if i not in columns]
        if listed := next((i for i in others if points[i].listed), None):
            raise ValueError(
                f"features.{name}: {listed!r} is a list behind its steps; make it of the column "
                f"{features[listed].inputs(listed)[0]!r} and write its steps again"
            )
        given = {i: _build_point(columns[i]) if i in columns else points[i] for i in inputs}
        points[name] = _trace_steps(
            f"features.{name}", features[name].steps, given, columns=columns
        )
        _check_missing(f"features.{name}", features[name], [columns.get(i) for i in inputs])
        is_width = features[name].embedding == "one_hot" or isinstance(
            features[name].embedding, int
        )
        if is_width and points[name].kind not in ("ids", "bag"):
            raise ValueError(
                f"features.{name}.embedding: is for ids, and the feature is {points[name].kind}; "
                f"leave it out, or make ids of it ({_list_steps_giving('ids')})"
            )
    for name in features:
        if name.removesuffix("_missing") in features and name.endswith("_missing"):
            raise ValueError(f"features.{name}: this name is taken by an indicator; use another")
    date_rules.check(features, columns)
    shared_tables.check(features, columns)
    list_weights.check(features, columns)


def check_label(label: Label, name: str, column: Any) -> None:
    """Raises `ValueError` for a label that no shipped model can learn, by its `config.Column`."""
    if column.missing == "allow" and column.default is None:
        raise ValueError(
            f"label: {name!r} may be missing, and of such rows nothing can be learnt; write "
            f"missing: drop in data.columns.{name}, or give it a default"
        )
    if kind_of(column) == "text" and not label.vocabulary:
        raise ValueError(
            f"label: {name!r} is text, and models learn numbers; write label: {{vocabulary: true}} "
            f"and vocabulary: {{}} in data.columns.{name}"
        )


def make_plain_name(feature: str) -> str:
    """Returns a feature's name as names of variables and of scopes may be: in ASCII, without the
    backslash, which TensorFlow's graph takes and its runtime refuses."""
    plain = re.sub(r"[^\x00-\x7f]", lambda match: f"u{ord(match[0]):x}", feature)
    return re.sub(r"[^A-Za-z0-9_./-]", "_", plain)


def check_names(features: Mapping[str, Feature]) -> None:
    """Raises `ValueError` for two features whose columns or variables would have one name."""
    known: dict[str, str] = {}
    for feature, name in _list_names(features):
        if name.startswith(_OURS):
            raise ValueError(
                f"features.{name}: names that begin with {_OURS!r} are for what models get besides "
                "features; name it differently, and write its column in of"
            )
        scope = make_plain_name(name).replace("/", "_")
        other = known.setdefault(scope, feature)
        if other != feature:
            raise ValueError(
                f"features.{feature}: variables of it and of {other!r} would both be called "
                f"{scope!r}; name one of them differently"
            )


# Weights, marks of the ledger, and what slices are made by have names that begin so.
_OURS = "input/"
# TensorFlow calls columns of networks by the name of their ids, with one of these behind it.
_OF_IDS = ("_embedding", "_indicator")


def _list_names(features: Mapping[str, Feature]) -> Iterator[tuple[str, str]]:
    """Yields each feature with what models get of it, and what columns and variables are called."""
    for name, feature in features.items():
        yield name, name
        if gives_ids(name, features):
            yield from ((name, name + ending) for ending in _OF_IDS)
        if any(step.has_indicator for step in feature.steps):
            yield name, f"{name}_missing"
        if feature.weights is not None:
            yield name, list_weights.weights_name(name)


def make_argument_name(column: str) -> str:
    """Returns what TensorFlow calls an input of a loaded model that has the name of a column."""
    name = "".join(c if c.isalnum() else "_" for c in column)
    return name if name[:1].isalpha() else f"arg_{name}"


def check_served(
    features: Mapping[str, Feature], *, label: Label, data_label: str, columns: Mapping[str, Any]
) -> None:
    """Raises `ValueError` for two columns that a served model could not tell apart."""
    used = {i for name, feature in features.items() for i in feature.reads(name)}
    known: dict[str, str] = {}
    for name in columns:
        if name == data_label or (name not in used if features else name == label.weight):
            continue
        other = known.setdefault(make_argument_name(name), name)
        if other != name:
            raise ValueError(
                f"data.columns: {other!r} and {name!r} are the same argument of an exported model, "
                f"{make_argument_name(name)!r}. Rename one in the raw data, or make no feature of "
                "it"
            )


def _check_weight(weight: str, data_label: str, columns: Mapping[str, Any]) -> None:
    if weight not in columns:
        near = errors.suggest(weight, columns)
        raise ValueError(f"label.weight: {weight!r} is not a column{near}")
    column = columns[weight]
    if kind_of(column) not in NUMBERS or column.shape or column.list or column.missing == "allow":
        raise ValueError(f"label.weight: {weight!r} must be one number that is never missing")
    if weight == data_label:
        raise ValueError(f"label.weight: {weight!r} is the label itself")


def _build_point(column: Any) -> _Point:
    kind = kind_of(column)
    known: set[base.Statistic] = set(base.OF_NUMBERS) if kind in NUMBERS else set()
    known |= {"vocabulary"} if kind in ("integer", "text") else set()
    absent = column.missing == "allow" and not column.list
    return _Point(kind, column.shape, frozenset(known), absent=absent, listed=column.list)


def _trace_steps(
    key: str, steps: Sequence[Step], inputs: Mapping[str, _Point], *, columns: Mapping[str, Any]
) -> _Point:
    """Returns what is known of a feature. Raises `ValueError` for steps that cannot follow each
    other, and for one that needs statistics which are not known where it is."""
    first = steps[0].step if steps and steps[0].several else None
    if first is not None and len(inputs) < 2:
        raise ValueError(f"{key}: {first} takes several inputs, got one")
    if first is None and len(inputs) > 1:
        several = ", ".join(name for name, step in STEPS.items() if step.several)
        got = f"{len(inputs)} and {steps[0].step}" if steps else str(len(inputs))
        raise ValueError(f"{key}: several inputs are for {several}; got {got}")
    shapes = {name: list(point.shape) for name, point in inputs.items()}
    if len({point.shape for point in inputs.values()}) > 1:
        shown = ", ".join(f"{name!r} {shape}" for name, shape in shapes.items())
        raise ValueError(f"{key}: {first} needs inputs of one shape, these have: {shown}")
    point = next(iter(inputs.values()))
    for position, step in enumerate(steps):
        if step.several and position:
            raise ValueError(f"{key}: {step.step} takes several inputs, so it must come first")
        for given in inputs.values() if position == 0 else (point,):
            known = _find_statistics(f"{key}: {step.step}", step, given, columns=columns)
            _check_step(f"{key}: {step.step}", step, given, known=known)
        try:
            point = _apply_step(step, point)
        except ValueError as error:
            raise ValueError(f"{key}: {step.step}: {error}") from None
    if point.listed and point.kind != "ids":
        raise ValueError(
            f"{key}: is a list of {point.kind}, which no model takes; make ids of its items "
            f"({_list_steps_giving('ids')}), or one number of all with pool"
        )
    if point.kind in ("text", "encoded"):
        raise ValueError(f"{key}: is {point.kind}, which no model takes; {_advise(point.kind)}")
    return point


def _find_statistics(
    key: str, step: Step, point: _Point, *, columns: Mapping[str, Any]
) -> frozenset[base.Statistic]:
    """Returns the statistics that a step can be filled in with. Raises `ValueError` for those of a
    column that is not there or holds other values."""
    other = step.statistics_of
    if other is None:
        return point.known
    if other not in columns:
        raise ValueError(f"{key}: of: {other!r} is not a column{errors.suggest(other, columns)}")
    of = _build_point(columns[other])
    if of.kind != point.kind:
        raise ValueError(
            f"{key}: of: column {other!r} is {of.kind}, and the step gets {point.kind}"
        )
    return of.known


def _check_step(key: str, step: Step, point: _Point, *, known: frozenset[base.Statistic]) -> None:
    """Raises `ValueError` for a step that cannot be done to values."""
    if point.kind not in step.takes:
        raise ValueError(
            f"{key} takes {' or '.join(step.takes)}, and gets {point.kind}; {_advise(point.kind)}"
        )
    if point.listed and step.lists is None:
        raise ValueError(f"{key} takes single values, got a list")
    if not point.listed and step.lists == "whole":
        raise ValueError(f"{key} takes a list, and gets single values")
    try:
        step.check(point.kind, point.shape)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    if step.fills_gaps and point.absent and point.changed:
        raise ValueError(
            f"{key} must come before {point.changed}: after that step a missing value cannot "
            "be told from others"
        )
    lacks = [name for name in step.needs(point.kind) if name not in known]
    if lacks:
        by = point.forgotten_by
        where = f"known after {by}" if by else f"known of values of kind {point.kind}"
        move = f", or put {step.step} before {by}" if by else ""
        raise ValueError(
            f"{key} needs {base.STATISTICS[lacks[0]]}, not {where}; {step.instead}{move}"
        )


def _apply_step(step: Step, point: _Point) -> _Point:
    known = base.derive_known(step, point.known)
    listed = step.ids_of_each > 1 or (point.listed and step.lists == "items")
    if listed and step.out_shape(point.shape) != point.shape:
        raise ValueError("makes several numbers of each item, and no model takes lists of these")
    same = not step.several and step.statistics_after() == "unchanged"
    return _Point(
        kind=step.gives or point.kind,
        shape=step.out_shape(point.shape),
        known=known,
        forgotten_by=point.forgotten_by if point.known == known else step.step,
        absent=point.absent and not step.fills_gaps,
        changed=point.changed if same else point.changed or step.step,
        listed=listed,
    )


def _advise(kind: Kind) -> str:
    """Returns which steps take values of a kind."""
    listed = [name for name, step in STEPS.items() if kind in step.takes]
    return f"what takes {kind}: {', '.join(listed)}" if listed else f"nothing takes {kind}"


def _list_steps_giving(kind: Kind) -> str:
    """Returns which steps make values of a kind of the items of a list."""
    return ", ".join(n for n, step in STEPS.items() if step.gives == kind and step.lists == "items")


def _check_missing(key: str, feature: Feature, columns: list[Any]) -> None:
    """Numbers that may be missing need a policy; a category of their own is one for the others."""
    takes = feature.steps[0].takes_missing if feature.steps else False
    for column in columns:
        if (
            column is not None
            and column.missing == "allow"
            and not column.list
            and column.default is None
            and column.type != "string"
            and not takes
        ):
            raise ValueError(
                f"{key}: values of its column may be missing, and it has no default; begin with "
                "{missing: {fill: mean}}, {missing: {fill: 0, indicator: true}} or the like"
            )
