"""Small tensors that a step sends to a parameter server, or gets from it, travel together.

TensorFlow sends each tensor by a call of its own. A model with sixty tables makes two hundred of
them in a step, which takes more processor time than the bytes that they carry. Here tensors that
go from one process to another at the same stage of a step are joined, sent as one, and cut again.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.training import training_util

SCOPE = "packed"
# Joining copies a tensor once more: of larger ones that costs more than a call of their own.
_LARGEST = 1 << 16  # bytes, of those whose size is known
# So many calls must be saved.
_FEWEST = 3
# Branches and loops of TensorFlow 1: what they return may be dead, which sends would spread.
_BRANCHES = {"Switch", "RefSwitch", "Merge", "RefMerge"}
_WHOLE = (tf.int32, tf.int64)
_CARRIED = (tf.float32, tf.float64, tf.float16, tf.bfloat16, *_WHOLE)

_Place = tuple[str | None, int | None]  # of a process: its job and task


class _Way(NamedTuple):
    """From one process to another, at a stage of a step."""

    source: _Place
    target: _Place
    stage: int


@dataclasses.dataclass
class _Edge:
    """A tensor that operations of another process take as these of their inputs."""

    tensor: Any
    inputs: list[tuple[Any, int]] = dataclasses.field(default_factory=list)


def pack(train_op: Any) -> int:
    """Joins what a step, the operation `train_op`, sends between processes, and returns how many
    sends that saves. No session may have been made of the graph before, no gradient be taken after.

    What is joined is sent at the same stage: as many sends wait for it, one after the other. So
    none of it waits for another, and joining makes no operation wait for itself.
    """
    ordered = list(_order_operations(train_op))
    if any(op.type in _BRANCHES for op in ordered):
        return 0
    edges = _find_edges(ordered, _find_places(ordered))
    with tf.control_dependencies(None), tf.name_scope(f"{SCOPE}/"):
        return sum(_join(list(of.values()), way) for way, of in edges.items())


def read_step_plainly() -> None:
    """Replaces what hooks fetch of each step to know its number. TensorFlow's own has a branch for
    a step without value, of which parts run in two processes: six sends."""
    graph = tf.compat.v1.get_default_graph()
    reads = graph.get_collection_ref(training_util.GLOBAL_STEP_READ_KEY)
    step = tf.compat.v1.train.get_or_create_global_step()
    reads[:] = [tf.identity(step.read_value())]


def _order_operations(last: Any) -> Iterator[Any]:
    """Yields all operations that `last` waits for, each after those that it waits for itself."""
    seen = set()
    waiting = [(last, False)]
    while waiting:
        op, is_ready = waiting.pop()
        if is_ready:
            yield op
        elif op not in seen:
            seen.add(op)
            waiting.append((op, True))
            waiting += [(before, False) for before in _before(op) if before not in seen]


def _before(op: Any) -> list[Any]:
    return [*(x.op for x in op.inputs), *op.control_inputs]


def _find_places(ordered: Iterable[Any]) -> dict[Any, _Place]:
    """Returns the process that runs each operation: what uses a variable runs where that is."""
    places: dict[Any, _Place] = {}
    for op in ordered:
        used = [x.op for x in op.inputs if x.dtype == tf.resource and x.op in places]
        device = tf.DeviceSpec.from_string(op.device)
        places[op] = places[used[0]] if used else (device.job, device.task)
    return places


def _find_edges(
    ordered: Sequence[Any], places: Mapping[Any, _Place]
) -> dict[_Way, dict[Any, _Edge]]:
    """Returns what can be joined, by way and by tensor."""
    stages = _count_stages(ordered, places)
    by_tensor: dict[tuple[Any, _Place], _Edge] = {}
    for op in ordered:
        for number, x in enumerate(op.inputs):
            if x.op not in places or places[x.op] == places[op]:
                continue
            if _can_be_joined(x):
                edge = by_tensor.setdefault((x.ref(), places[op]), _Edge(x))
                edge.inputs.append((op, number))
    found: dict[_Way, dict[Any, _Edge]] = collections.defaultdict(dict)
    for (key, target), edge in by_tensor.items():
        stage = max(stages[op] for op, _ in edge.inputs)
        found[_Way(places[edge.tensor.op], target, stage)][key] = edge
    return found


def _count_stages(ordered: Sequence[Any], places: Mapping[Any, _Place]) -> dict[Any, int]:
    """Returns for each operation how many sends wait for it, one after the other."""
    stages: dict[Any, int] = collections.defaultdict(int)
    for op in reversed(ordered):
        for before in _before(op):
            sends = places[before] != places[op]
            stages[before] = max(stages[before], stages[op] + sends)
    return stages


def _can_be_joined(x: Any) -> bool:
    shape = x.shape
    if x.dtype not in _CARRIED or shape.rank is None:
        return False
    count = shape.num_elements()
    if count is None:
        return shape.as_list().count(None) == 1 and 0 not in shape.as_list()
    return bool(count * x.dtype.size <= _LARGEST)


def _join(edges: Sequence[_Edge], way: _Way) -> int:
    """Joins tensors, and returns how many sends that saves."""
    by_type: dict[tf.DType, list[_Edge]] = collections.defaultdict(list)
    for edge in edges:
        kind = edge.tensor.dtype
        by_type[tf.int64 if kind in _WHOLE else kind].append(edge)
    of_unknown = [edge.tensor for edge in edges if edge.tensor.shape.num_elements() is None]
    # Sizes travel with the whole numbers, in front of them.
    calls = len(by_type) + (bool(of_unknown) and tf.int64 not in by_type)
    if len(edges) - calls < _FEWEST:
        return 0
    sizes: dict[Any, Any] = {}
    whole = by_type.pop(tf.int64, [])
    if of_unknown or whole:
        with tf.device(_format_device(way.source)):
            known = [tf.size(x, tf.int64) for x in of_unknown]
            head = [tf.stack(known)] if known else []
            parts = [*head, *(_flatten(edge.tensor, tf.int64) for edge in whole)]
            joined = tf.concat(parts, axis=0)
        with tf.device(_format_device(way.target)):
            rest = tf.identity(joined)
            if known:
                head, rest = rest[: len(known)], rest[len(known) :]
                sizes = dict(
                    zip([x.ref() for x in of_unknown], tf.unstack(head, len(known)), strict=True)
                )
            _hand_out(rest, whole, sizes)
    for kind, same in by_type.items():
        with tf.device(_format_device(way.source)):
            joined = tf.concat([_flatten(edge.tensor, kind) for edge in same], axis=0)
        with tf.device(_format_device(way.target)):
            _hand_out(joined, same, sizes)
    return len(edges) - calls


def _flatten(x: Any, kind: tf.DType) -> tf.Tensor:
    return tf.cast(tf.reshape(x, [-1]), kind)


def _hand_out(joined: tf.Tensor, edges: Sequence[_Edge], sizes: dict[Any, Any]) -> None:
    """Cuts a vector into the tensors of `edges`, and gives them to who takes these."""
    if not edges:
        return
    lengths = [sizes.get(edge.tensor.ref(), edge.tensor.shape.num_elements()) for edge in edges]
    parts = tf.split(joined, tf.stack(lengths), num=len(edges)) if len(edges) > 1 else [joined]
    for edge, part in zip(edges, parts, strict=True):
        x = edge.tensor
        shape = [-1 if size is None else size for size in x.shape.as_list()]
        got = tf.cast(tf.reshape(part, shape), x.dtype)
        for op, number in edge.inputs:
            op._update_input(number, got)


def _format_device(place: _Place) -> tf.DeviceSpec:
    job, task = place
    return tf.DeviceSpec(job=job, task=task).to_string()
