"""Has an export ask for the ops behind its outputs in time that grows with the graph.

For each signature TensorFlow looks whether all placeholders behind its outputs are fed. Its walk
(`op_selector.get_backward_walk_ops` of 2.15) looks for each input of an op in a list of all ops
found so far: where serialized Examples are fed, those are as many as columns, and the time grows
with their square. Of 10,000 columns that was half of the time to write a model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import op_selector
from tensorflow.python.util import object_identity


def find_ops_behind(tensors: Iterable[tf.Tensor], stop_at_ts: Iterable[tf.Tensor]) -> list[Any]:
    """Returns the ops that make tensors, and all whose outputs go into these, nearest first. What
    is behind the tensors to stop at is left out."""
    stops = object_identity.ObjectIdentitySet(stop_at_ts)
    found = dict.fromkeys(tensor.op for tensor in tensors)
    left = list(found)
    for op in left:  # which grows meanwhile
        for tensor in op.inputs:
            if tensor.op not in found and tensor not in stops:
                found[tensor.op] = None
                left.append(tensor.op)
    return left


@contextlib.contextmanager
def replace_tensorflow_walk() -> Iterator[None]:
    """Has `Estimator.export_saved_model` use `find_ops_behind` within the block."""
    own = op_selector.get_backward_walk_ops

    def walk(seed_ops: Any, *given: Any, stop_at_ts: Any = (), **named: Any) -> Any:
        if given or named:
            return own(seed_ops, *given, stop_at_ts=stop_at_ts, **named)
        return find_ops_behind(seed_ops, stop_at_ts)

    op_selector.get_backward_walk_ops = walk
    try:
        yield
    finally:
        op_selector.get_backward_walk_ops = own
