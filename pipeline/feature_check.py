"""Whether features can be made, as far as the config alone tells: kinds, order, missing values.

A feature that gives the label away is refused too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline import errors
from pipeline.feature_config import NUMBERS, STEPS, Feature, Kind, Label


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


def ordered(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> list[str]:
    """Returns the names of features, each after those it is made of. Raises `ValueError` if there
    is no such order, or for an input that is neither column nor feature."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"features.{name}: made of itself, through {' <- '.join(path)}")
        for given in features[name].inputs(name):
            if given in columns:
                continue
            if given not in features or given == name:
                known = [*columns, *features]
                raise ValueError(
                    f"features.{name}: {given!r} is no column and no other feature"
                    f"{errors.nearest(given, [k for k in known if k != name])}; "
                    f"columns: {', '.join(columns)}"
                )
            visit(given, (*path, name))
        if name not in done:
            done.append(name)

    for name in features:
        visit(name, ())
    return done


def check(
    features: Mapping[str, Feature], label: Label, data_label: str, columns: Mapping[str, Any]
) -> None:
    """Raises `ValueError` for features that cannot be made, and for such as give the label away."""
    if label.weight is not None:
        _check_weight(label.weight, data_label, columns)
    if label.threshold is not None and kind_of(columns[data_label]) not in NUMBERS:
        raise ValueError(f"label: threshold is for numbers, {data_label!r} is text")
    check_served(features, label, data_label, columns)
    kinds: dict[str, Kind] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name in ordered(features, columns):
        inputs = features[name].inputs(name)
        if data_label in inputs:
            raise ValueError(
                f"features.{name}: made of {data_label!r}, the label: a model would learn to read "
                "its answer; take it away"
            )
        of_inputs = [kind_of(columns[i]) if i in columns else kinds[i] for i in inputs]
        kinds[name] = _check_steps(f"features.{name}", features[name], of_inputs)
        of_each = {i: columns[i].shape if i in columns else shapes[i] for i in inputs}
        shapes[name] = _check_shapes(f"features.{name}", features[name], of_each)
        _check_missing(f"features.{name}", features[name], [columns.get(i) for i in inputs])
    for name in features:
        if name.removesuffix("_missing") in features and name.endswith("_missing"):
            raise ValueError(f"features.{name}: indicators are called so; use another name")


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


def as_argument(column: str) -> str:
    """Returns what TensorFlow calls an input of a loaded model that has the name of a column."""
    name = "".join(c if c.isalnum() else "_" for c in column)
    return name if name[:1].isalpha() else f"arg_{name}"


def check_served(
    features: Mapping[str, Feature], label: Label, data_label: str, columns: Mapping[str, Any]
) -> None:
    """Raises `ValueError` for two columns that a served model could not tell apart."""
    used = {i for name, feature in features.items() for i in feature.inputs(name)}
    known: dict[str, str] = {}
    for name in columns:
        if name in (data_label, label.weight) or (features and name not in used):
            continue
        other = known.setdefault(as_argument(name), name)
        if other != name:
            raise ValueError(
                f"data.columns: to TensorFlow {other!r} and {name!r} are both "
                f"{as_argument(name)!r}, so that no model with these two could be served; call "
                "one otherwise in the raw data, or make no feature of it"
            )


def _check_weight(weight: str, data_label: str, columns: Mapping[str, Any]) -> None:
    if weight not in columns:
        raise ValueError(f"label.weight: {weight!r} is no column{errors.nearest(weight, columns)}")
    column = columns[weight]
    if kind_of(column) not in NUMBERS or column.shape or column.missing == "allow":
        raise ValueError(f"label.weight: {weight!r} must be one number that is never missing")
    if weight == data_label:
        raise ValueError(f"label.weight: {weight!r} is the label itself")


def _check_steps(key: str, feature: Feature, inputs: list[Kind]) -> Kind:
    """Returns the kind of the feature."""
    first = feature.steps[0].step if feature.steps else None
    if (first == "cross") != (len(inputs) > 1):
        raise ValueError(
            f"{key}: cross takes several inputs, and nothing else does; got {len(inputs)}"
            f"{'' if first is None else f' and {first}'}"
        )
    kind = inputs[0]
    for position, step in enumerate(feature.steps):
        given = inputs if position == 0 else [kind]
        wrong = [k for k in given if k not in step.takes]
        if wrong:
            raise ValueError(
                f"{key}: {step.step} takes {' or '.join(step.takes)}, and gets {wrong[0]}; "
                f"{_advice(wrong[0])}"
            )
        _check_values(key, step, kind)
        kind = step.gives or kind
    if kind in ("text", "encoded"):
        raise ValueError(f"{key}: is {kind}, which no model takes; {_advice(kind)}")
    return kind


def _check_values(key: str, step: Any, kind: Kind) -> None:
    """Values among the settings of a step must be such as it gets."""
    values = tuple(step.values or ()) if step.step == "vocabulary" else ()
    if step.step == "missing" and (kind == "text" or step.fill != "mean"):
        values = (step.fill,)
        if step.fill == "mean":
            raise ValueError(f"{key}: missing: texts have no mean; say which stands for none, fill")
    for value in values:
        fits = isinstance(value, str) == (kind == "text")
        if not fits or (kind == "integer" and value != int(value)):
            raise ValueError(
                f"{key}: {step.step}: {value!r} is no {kind}, and that is what it gets"
            )
        if values.count(value) > 1:
            raise ValueError(f"{key}: {step.step}: {value!r} is there twice")


def _check_shapes(
    key: str, feature: Feature, inputs: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """Returns the shape of the first input. All of a cross must have the same."""
    shown = ", ".join(f"{name!r} {list(shape)}" for name, shape in inputs.items())
    if len(set(inputs.values())) > 1:
        raise ValueError(f"{key}: cross takes as many values of each, these have shapes: {shown}")
    shape = next(iter(inputs.values()))
    if shape and any(step.step == "ngrams" for step in feature.steps):
        raise ValueError(f"{key}: ngrams takes one text a row, this has a shape: {shown}")
    return shape


def _advice(kind: Kind) -> str:
    """Returns which steps take values of a kind."""
    listed = [name for name, step in STEPS.items() if kind in step.takes]
    return f"what takes {kind}: {', '.join(listed)}" if listed else f"nothing takes {kind}"


def _check_missing(key: str, feature: Feature, columns: list[Any]) -> None:
    """Numbers that may be missing need a policy; a category of their own is one for the others."""
    first = feature.steps[0].step if feature.steps else None
    for column in columns:
        if (
            column is not None
            and column.missing == "allow"
            and column.default is None
            and column.type != "string"
            and first not in ("missing", "vocabulary", "hash", "identity", "cross")
        ):
            raise ValueError(
                f"{key}: its column may be missing, and no default stands for that; begin with "
                "{missing: {fill: mean}}, {missing: {fill: 0, indicator: true}} or the like"
            )
