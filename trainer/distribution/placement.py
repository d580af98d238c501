"""Which parameter server holds which variable: by what a step asks of it, not in turn.

TensorFlow places variables round-robin, so that one server may get all the large ones; and a
variable never spans servers unless it is cut.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.cluster import topology
from trainer.distribution import balanced_tables

# What TensorFlow calls the variable that is a part of one.
_PART = re.compile(r"/part_(\d+)$")
# Of a table of so many rows, batches of some hundred ids by Zipf's law ask for about half; of more
# rows for a smaller share, of few for all.
_MANY_ROWS = 300


class LeastLoaded:
    """Chooses for each variable the server that is asked for the least so far, unless one is asked
    for; for each part of a variable that is cut another server.

    Of a table, that is by the rows that a batch may ask for; of all else, by bytes. Deterministic:
    every process builds its own copy of the graph and must choose alike.
    """

    def __init__(self, servers: int) -> None:
        self.bytes, self.rows = [0.0] * servers, [0.0] * servers
        self._first: dict[str, int] = {}  # the server of the first part, by variable

    def __call__(self, op: Any) -> int:
        """Returns the index of the server for the variable that `op` makes."""
        size, rows = asked_of(op)
        server = self._chosen(op, is_table=rows > 0)
        self.bytes[server] += size
        self.rows[server] += rows
        return server

    def _chosen(self, op: Any, *, is_table: bool) -> int:
        asked = tf.DeviceSpec.from_string(op.device).task
        if asked is not None:
            return int(asked)
        loads: list[Any] = list(zip(self.rows, self.bytes, strict=True)) if is_table else self.bytes
        least = loads.index(min(loads))
        part = _PART.search(op.name)
        if part is None:
            return least
        # Parts are of equal size, and there are at most as many as servers. One that is not cut has
        # a first part, too.
        first = self._first.setdefault(op.name[: part.start()], least)
        return (first + int(part[1])) % len(self.bytes)


def asked_of(op: Any) -> tuple[float, float]:
    """Returns the bytes of a variable that a step asks for, and of a table the rows; of all else,
    all bytes and no rows. One of unknown shape counts as a single value."""
    dtype, shape = tf.as_dtype(op.get_attr("dtype")), tf.TensorShape(op.get_attr("shape"))
    size = float((shape.num_elements() or 1) * dtype.size)
    if shape.rank != 2 or (shape[0] or 0) < 2 or balanced_tables.is_kernel(_PART.sub("", op.name)):
        return size, 0.0
    rows = shape[0] / (1 + shape[0] / _MANY_ROWS)
    return size * rows / shape[0], rows


def device_fn(task: topology.Task) -> Any:
    """Returns the `device_fn` of `RunConfig` for a training process of a cluster with servers.

    `None` leaves placement to TensorFlow, as everywhere else.
    """
    servers = task.cluster.get(topology.PS, ())
    if len(servers) < 2 or task.job_name not in topology.TRAINING_ROLES:
        return None
    return tf.compat.v1.train.replica_device_setter(
        ps_tasks=len(servers),
        worker_device=f"/job:{task.job_name}/task:{task.task_index}",
        cluster={role: list(addresses) for role, addresses in task.cluster.items()},
        ps_strategy=LeastLoaded(len(servers)),
    )


@contextlib.contextmanager
def cut(servers: int, largest: int) -> Iterator[None]:
    """Cuts variables of more than `largest` bytes that are made within the block over the servers.

    Also where a canned Estimator has opened a scope with a partitioner of its own, which cuts
    tables from 64 MiB on (docs/tensorflow-pitfalls.md#placement-of-variables), and where a Keras
    layer makes a table. The rows of tables go to the servers by `balanced_tables`.
    """
    with contextlib.ExitStack() as stack:
        ours = None
        if servers > 1:
            ours = partitioner(servers, largest)
            stack.enter_context(balanced_tables.keras_tables(ours))
            stack.enter_context(balanced_tables.lookups())

        def get(getter: Any, *args: Any, **kwargs: Any) -> Any:
            # What an optimizer remembers of a part of a variable asks for no partitioner.
            asks, initializer = kwargs.get("partitioner") is not None, kwargs.get("initializer")
            # TensorFlow gives each part of a constant all of its rows.
            can = np.ndim(getattr(initializer, "value", 0)) == 0
            replaced = {"partitioner": ours if can else None} if asks else {}
            made = getter(*args, **{**kwargs, **replaced})
            return balanced_tables.balanced(made, initializer=initializer)

        scope = tf.compat.v1.get_variable_scope()
        getter = None if ours is None else get
        stack.enter_context(
            tf.compat.v1.variable_scope(scope, partitioner=ours, custom_getter=getter)
        )
        yield


def partitioner(servers: int, largest: int) -> Any:
    """Returns a partitioner that cuts variables of more than `largest` bytes along their first
    axis, into one part a server. Checkpoints hold such a variable as one, so that other numbers of
    servers can read it."""

    def parts(shape: tf.TensorShape, dtype: tf.DType, **_: Any) -> Sequence[int]:
        size = (shape.num_elements() or 0) * dtype.size
        cut = min(servers, shape[0]) if size > largest else 1
        return [cut, *[1] * (shape.rank - 1)]

    return parts
