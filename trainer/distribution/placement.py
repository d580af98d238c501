"""Which parameter server holds which variable: by what a step asks of it, not in turn.

TensorFlow places variables round-robin, so that one server may get all the large ones; and a
variable never spans servers unless it is cut.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.cluster import topology
from pipeline.config.cluster_config import LARGE_VARIABLE
from trainer.distribution import balanced_tables

# What TensorFlow calls the variable that is a part of one.
_PART = re.compile(r"/part_(\d+)$")
# Of a table of so many rows, batches of some hundred ids by Zipf's law ask for about half; of more
# rows for a smaller share, of few for all. Lists have several times the ids.
_MANY_ROWS, _MANY_OF_LISTS = 300, 3000
# An id, which travels with each row of a table and with its gradient.
_ID_BYTES = 8
# Unless a size is given, what asks for more than this share of what a step asks of each server is
# cut, except where that is next to nothing. Each cut of a table takes operations, and many whole
# tables even out.
_SHARE, _SHARE_OF_TABLES = 0.1, 1 / 3
_FEW_BYTES, _FEW_ROWS = 4096, 32


class StepLoad(NamedTuple):
    """What a step asks of a variable: bytes, of tables also rows."""

    bytes: float
    rows: float


class Tables(NamedTuple):
    """What is known of the tables of a model before they are made: the rows that a step asks of
    them, and the scopes of those of which an example may ask for several."""

    rows: float = 0.0
    lists: frozenset[str] = frozenset()

    @classmethod
    def of(cls, ids: Mapping[str, int], lists: Iterable[str]) -> Tables:
        """Returns this of tables of so many `ids`, by scope."""
        several = frozenset(lists)
        return cls(
            sum(_estimate_rows(n, several=scope in several) for scope, n in ids.items()), several
        )


NO_TABLES = Tables()


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
        shape, dtype = tf.TensorShape(op.get_attr("shape")), tf.as_dtype(op.get_attr("dtype"))
        asked = estimate_load(_PART.sub("", op.name), shape, dtype)
        server = self._choose_server(op, is_table=asked.rows > 0)
        self.bytes[server] += asked.bytes
        self.rows[server] += asked.rows
        return server

    def _choose_server(self, op: Any, *, is_table: bool) -> int:
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


class Cuts:
    """Decides for each variable, as they are made one after the other, in how many parts.

    Those of more than `largest` bytes get a part for each server. Without that it is as many as it
    takes for all servers to be asked for alike: what asks for a share of a server's load goes to
    all of them. Any other, put where the least is asked for, makes the load of that server at most
    so much larger than the mean. Deterministic, as `LeastLoaded` is.
    """

    def __init__(self, servers: int, largest: int | None, tables: Tables = NO_TABLES) -> None:
        self._servers, self._largest, self._tables = servers, largest, tables
        self._asked = StepLoad(0.0, 0.0)  # of what has been made
        self._parts: dict[str, Sequence[int]] = {}

    def count_parts(self, name: str, shape: tf.TensorShape, dtype: tf.DType) -> Sequence[int]:
        """Returns the number of parts along each axis of a variable that is about to be made, or is
        there and taken again.

        Lookups want rows, so of tables it is the first axis; of a kernel the longest, which cuts it
        into the most equal parts.
        """
        if name not in self._parts:
            self._parts[name] = self._decide_parts(name, shape, dtype)
        return self._parts[name]

    def _decide_parts(self, name: str, shape: tf.TensorShape, dtype: tf.DType) -> Sequence[int]:
        cut = [1] * shape.rank
        if shape.rank and self._is_cut(name, shape, dtype):
            axis = int(np.argmax(shape)) if balanced_tables.is_kernel(name) else 0
            cut[axis] = min(self._servers, shape[axis])
        return cut

    def _is_cut(self, name: str, shape: tf.TensorShape, dtype: tf.DType) -> bool:
        size = shape.num_elements() * dtype.size
        if self._largest is not None:
            return bool(size > self._largest)
        several = name.rpartition("/")[0].rpartition("/")[2] in self._tables.lists
        asked = estimate_load(name, shape, dtype, several=several)
        if asked.rows:
            share = _SHARE if several else _SHARE_OF_TABLES
            rows = max(self._asked.rows, self._tables.rows)
            is_much = asked.rows > max(_FEW_ROWS, share * rows / self._servers)
        else:
            is_much = asked.bytes > max(_FEW_BYTES, _SHARE * self._asked.bytes / self._servers)
        self._asked = StepLoad(*np.add(self._asked, asked))
        return bool(size > LARGE_VARIABLE or is_much)

    def build_partitioner(self, name: str) -> Any:
        """Returns what TensorFlow asks for the parts of the variable `name`. Checkpoints hold a
        variable as one, so that other numbers of servers can read it."""

        def count_parts(shape: tf.TensorShape, dtype: tf.DType, **_: Any) -> Sequence[int]:
            return self.count_parts(name, shape, dtype)

        return count_parts


def estimate_load(
    name: str, shape: tf.TensorShape, dtype: tf.DType, *, several: bool = False
) -> StepLoad:
    """Returns what a step asks of a variable or a part of one: of a table some rows, with their
    ids, of all else all bytes. One of unknown shape counts as a single value. Of a table examples
    may ask for `several` rows each."""
    size = float((shape.num_elements() or 1) * dtype.size)
    if shape.rank != 2 or (shape[0] or 0) < 2 or balanced_tables.is_kernel(name):
        return StepLoad(size, 0.0)
    rows = _estimate_rows(shape[0], several=several)
    return StepLoad(rows * (size / shape[0] + _ID_BYTES), rows)


def _estimate_rows(ids: int, *, several: bool) -> float:
    return ids / (1 + ids / (_MANY_OF_LISTS if several else _MANY_ROWS))


def build_device_fn(task: topology.Task) -> Any:
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
def cut(servers: int, largest: int | None = None, tables: Tables = NO_TABLES) -> Iterator[None]:
    """Cuts variables that are made within the block over the servers, as `Cuts` decides.

    Also where a canned Estimator has opened a scope with a partitioner of its own, which cuts
    tables from 64 MiB on (docs/tensorflow-pitfalls.md#placement-of-variables), and where a Keras
    layer makes a table. The rows of tables go to the servers by `balanced_tables`.
    """
    cuts = Cuts(servers, largest, tables) if servers > 1 else None

    def get(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        initializer = kwargs.get("initializer")
        # What an optimizer remembers of a part of a variable asks for no partitioner.
        if kwargs.get("partitioner") is not None:
            can = balanced_tables.can_be_cut(initializer)
            kwargs["partitioner"] = cuts.build_partitioner(name) if cuts and can else None
            kwargs["initializer"] = balanced_tables.cut_initializer(initializer)
        made = getter(name, *args, **kwargs)
        return balanced_tables.balance(made, initializer=initializer)

    with contextlib.ExitStack() as stack:
        scope, ours = tf.compat.v1.get_variable_scope(), {}
        if cuts is not None:
            stack.enter_context(balanced_tables.cut_keras_tables(cuts.count_parts))
            stack.enter_context(balanced_tables.patch_lookups())
            ours = {"partitioner": cuts.build_partitioner(""), "custom_getter": get}
        stack.enter_context(tf.compat.v1.variable_scope(scope, **ours))
        yield
