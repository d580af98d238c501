"""Features of columns that are like each other, a few ops for all of them: of a wide table, ops for
each are nearly all of a graph, and of the time to build it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from pipeline.records.feature_plan import Planned
from trainer.features import packing

Tensors = dict[str, tf.Tensor]

# Of fewer, ops of their own cost less than to put them together and apart.
_MANY = 32


def make(
    features: Iterable[Planned],
    columns: Mapping[str, tf.Tensor],
    *,
    training: bool,
    layers: bool,
) -> dict[str, Tensors]:
    """Returns by feature what `transforms.make` makes of it, for those of one column, `[batch]`,
    of which many go through steps of the same classes. The values are the same to the last bit.
    """
    alike: dict[Any, list[Planned]] = {}
    for planned in features:
        given = columns.get(planned.inputs[0])
        if given is not None and given.shape.rank == 1 and _fits(planned, layers=layers):
            steps = tuple((type(step), step.has_indicator) for step in planned.steps)
            alike.setdefault((given.dtype, steps), []).append(planned)
    found: dict[str, Tensors] = {}
    for group in alike.values():
        if len(group) >= _MANY:
            found |= _transform_group(group, columns, training=training, layers=layers)
    return found


def _fits(planned: Planned, *, layers: bool) -> bool:
    return (
        len(planned.inputs) == 1
        and bool(planned.steps)
        and planned.weights is None
        and all(point.shape == () and not point.listed for point in planned.points)
        and all(step.layers_together if layers else step.together for step in planned.steps)
    )


def _transform_group(
    group: list[Planned], columns: Mapping[str, tf.Tensor], *, training: bool, layers: bool
) -> dict[str, Tensors]:
    made: dict[str, Tensors] = {planned.name: {} for planned in group}
    x = packing.stack_tensors([columns[planned.inputs[0]] for planned in group])

    def put(names: Iterable[str | None], values: tf.Tensor) -> None:
        for planned, name, value in zip(
            group, names, tf.unstack(values, len(group), axis=1), strict=True
        ):
            if name:
                made[planned.name][name] = value

    for number in range(len(group[0].steps)):
        steps = [planned.steps[number] for planned in group]
        first = steps[0]
        if number == group[0].indicated_by:
            put((planned.indicator for planned in group), type(first).indicate_all(steps, x))
        if training or not first.in_training_only:
            kind = type(first)
            x = kind.layer_all(steps, x) if layers else kind.apply_all(steps, x)
    put((planned.name for planned in group), x)
    return made
