"""Features of columns as layers of a Keras model, out of the same steps as in Estimators.

Called with the tensors of a Keras model, TensorFlow's ops become layers that Keras itself knows how
to save. What cannot be one (files of different sizes, ragged texts) stays outside: it is done to
what the model is fed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline import config
from pipeline.records.feature_plan import Planned
from trainer.features import packing
from trainer.features.names import name_op, name_ops
from trainer.features.transforms import Tensors, Transforms, cast_features, make
from trainer.heads import heads

# Values of an example, at most, of which each is an input of its own.
_INPUTS = 1000
_TYPES = {"uint8": "uint8", "string": "string", "int64": "int64", "float32": "float32"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """One input of a Keras model: the shape of one example, and the type."""

    shape: tuple[int | None, ...]
    dtype: str


def build_inputs(specs: Mapping[str, Spec]) -> dict[str, Any]:
    """Returns the inputs of a Keras model, which is fed them by name.

    Their layers end in `_input`, as no other layer does: a column may be called `output` or `mask`.
    """
    layers = name_ops(specs)
    return {
        name: tf.keras.Input(spec.shape, name=f"{layers[name]}_input", dtype=spec.dtype)
        for name, spec in specs.items()
    }


def choose_packing(specs: Mapping[str, Spec]) -> packing.Packing:
    """Returns which inputs of a Keras model are columns of one input of their type: all with one
    value an example, where there are so many that Keras would take minutes for an input of each."""
    single = {name: tf.as_dtype(spec.dtype) for name, spec in specs.items() if spec.shape == ()}
    return packing.Packing(single if len(single) > _INPUTS else {})


def pack_inputs(specs: Mapping[str, Spec]) -> dict[str, Spec]:
    """Returns inputs as `choose_packing` packs them."""
    parts = choose_packing(specs).parts
    found = {name: Spec((len(each),), specs[each[0]].dtype) for name, each in parts.items()}
    inside = set().union(*parts.values())
    return {name: spec for name, spec in specs.items() if name not in inside} | found


class KerasColumns:
    """What a Keras model is fed in place of columns, and the features it makes of that."""

    def __init__(self, transforms: Transforms) -> None:
        self._transforms = transforms
        every = transforms.plan.features
        inside = {name for f in every if not _find_places(f) for name in f.feature.reads(f.name)}
        cut = [_cut(planned, inside) for planned in every]
        self._outside = [before for before, _ in cut if before is not None]
        self._of_outside = [planned.indicator for planned in every if _find_places(planned)]
        self._inside = [after for _, after in cut]

    @property
    def inputs(self) -> dict[str, Spec]:
        """Columns, and features that are made outside in place of theirs; many are packed."""
        return pack_inputs(self._parts)

    @property
    def packed(self) -> dict[str, list[str]]:
        """The inputs that many columns are packed in, with these in their order."""
        return choose_packing(self._parts).parts

    @functools.cached_property
    def _parts(self) -> dict[str, Spec]:
        columns = self._transforms.serving_columns
        made = {before.name: _describe_cut(before) for before in self._outside}
        for before in self._outside:
            if before.indicator:
                made[before.indicator] = Spec(before.indicator_shape, "float32")
            if before.weights:
                made[before.weights.name] = Spec((None,), "float32")
        if not self._transforms.plan.features:
            return {name: _describe_column(column) for name, column in columns.items()}
        used = {name for after in self._inside for name in after.inputs}
        used |= {after.weights.column for after in self._inside if after.weights}
        used -= made.keys()
        kept = {name: _describe_column(c) for name, c in columns.items() if name in used}
        return {**kept, **made}

    @property
    def planned(self) -> tuple[Planned, ...]:
        """The features as declared."""
        return self._transforms.plan.features

    @property
    def head_params(self) -> dict[str, Any]:
        """The params of models' heads that are not in `model.params`."""
        return heads.collect_params(self._transforms.plan)

    @property
    def features(self) -> dict[str, Spec]:
        """What networks get."""
        if not self._transforms.plan.features:
            return self._parts
        found = {}
        for planned in self._transforms.plan.features:
            if planned.indicator:
                found[planned.indicator] = Spec(planned.indicator_shape, "float32")
            of_ids = planned.kind in ("ids", "bag")
            shape = (None,) if planned.kind == "bag" else planned.shape
            found[planned.name] = Spec(shape, "int64" if of_ids else "float32")
            if planned.weights:
                found[planned.weights.name] = Spec((None,), "float32")
        return found

    def prepare_inputs(self, columns: Mapping[str, tf.Tensor]) -> Tensors:
        """Returns inputs of the model out of columns."""
        made = make(self._outside, columns)
        parts = {name: made.get(name, columns.get(name)) for name in self._parts}
        return choose_packing(self._parts).pack(parts)

    def build(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns features out of the inputs of a Keras model, as tensors of that model."""
        inputs = choose_packing(self._parts).unpack(inputs)
        if not self._transforms.plan.features:
            return dict(inputs)
        pairs = zip(self._outside, self._of_outside, strict=True)
        indicators = {own: inputs[fed.indicator] for fed, own in pairs if fed.indicator and own}
        outside = {fed.weights.name for fed in self._outside if fed.weights}
        weights = {name: inputs[name] for name in outside}
        made = make(self._inside, inputs, layers=True)
        return {**indicators, **weights, **cast_features(self._inside, made)}


def _find_places(planned: Planned) -> list[int]:
    """Returns where the steps are that are done outside: with one that gets ragged lists, all steps
    of lists."""
    steps = planned.steps
    found = [n for n, step in enumerate(steps) if not step.in_keras]
    return found and [n for n in range(len(steps)) if n in found or planned.points[n].listed]


def _cut(planned: Planned, taken: set[str]) -> tuple[Planned | None, Planned]:
    """Returns a feature up to its last step outside, if there is one, and the rest of it.

    What is between goes by the name of the feature; if others are made of a column, or of all of
    a feature, that is called so, by that and the step.
    """
    places = _find_places(planned)
    if not places:
        return None, planned
    until, last = places[-1] + 1, planned.steps[places[-1]]
    name = f"{planned.name}_{name_op(last.step)}" if planned.name in taken else planned.name
    steps, points = planned.steps, planned.points
    before = dataclasses.replace(
        planned, name=name, steps=steps[:until], points=points[: until + 1]
    )
    first, *others = points[until:]
    if first.listed:  # ids, which are fed as a bag
        first = dataclasses.replace(first, kind="bag", listed=False)
    inside = dataclasses.replace(
        planned, inputs=(name,), steps=steps[until:], points=(first, *others), weights=None
    )
    return before, inside


def _describe_cut(planned: Planned) -> Spec:
    """Returns what a feature is behind its last step outside."""
    types = {"number": "float32", "image": "float32", "text": "string"}
    shape = (None,) if planned.kind == "bag" else planned.shape
    return Spec(shape, types.get(planned.kind, "int64"))


def _describe_column(column: config.Column) -> Spec:
    return Spec((column.max_items,) if column.list else column.shape, _TYPES[column.type])
