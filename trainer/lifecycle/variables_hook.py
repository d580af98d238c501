"""At the start of training: what a step touches, and whether all variables fit into memory."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.processes import memory
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.monitoring.status_reporter import Reporter

_v1 = tf.compat.v1
# Ops that change some rows of a variable.
_OF_ROWS = ("ResourceScatter", "ResourceSparseApply")
# Below so many bytes training does not wait for the servers to report their memory.
_LITTLE = 1 << 30
_PATIENCE = 30.0  # seconds
_LOCAL = "this host"


@dataclasses.dataclass(frozen=True)
class _Variable:
    name: str
    # Of it, or of the part that it is, and of the whole.
    shape: tuple[int, ...]
    whole: tuple[int, ...]
    bytes: int
    server: int | None
    by_row: bool = False


class VariablesHook(tf.compat.v1.train.SessionRunHook):
    """The chief's: it looks at the graph before any variable is made."""

    def __init__(
        self,
        run: RunFolder,
        task: topology.Task,
        reporter: Reporter,
        *,
        how: str,
        needed: Callable[[], Mapping[str, Iterable[str]]] = dict,
    ) -> None:
        """`how` is the name of the optimizer; `needed` returns the variables that other modes of
        the model read, by mode."""
        self._run, self._task, self._reporter, self._how = run, task, reporter, how
        self._needed = needed

    def begin(self) -> None:
        """Notes what a step touches. Raises `UsageError` if variables that are needed are not
        trained, or are larger than the memory that is there for them."""
        trained = [_describe(variable) for variable in _v1.trainable_variables()]
        if line := describe_changes(self._how, trained):
            self._reporter.add_note(line)
        every = [_describe(variable) for variable in _v1.global_variables()]
        _check_needed(self._needed(), {one.name for one in every})
        check_memory(every, self._read_server_memory(sum(one.bytes for one in every)))

    def _read_server_memory(self, needed: int) -> Mapping[int | None, tuple[str, int]]:
        """Returns host and bytes of the memory of each server; `None` stands for this process."""
        count = len(self._task.cluster.get(topology.PS, ()))
        if not count:
            here = memory.available()
            return {} if here is None else {None: (_LOCAL, here)}
        names = {f"{topology.PS}-{index}": index for index in range(count)}

        def read_known() -> dict[int | None, tuple[str, int]]:
            statuses = run_folder.read_statuses(self._run)
            return {
                index: (statuses[name].host, statuses[name].memory or 0)
                for name, index in names.items()
                if name in statuses and statuses[name].memory is not None
            }

        return _await_known(read_known, count, patience=_PATIENCE if needed > _LITTLE else 0.0)


def _check_needed(needed: Mapping[str, Iterable[str]], saved: set[str]) -> None:
    for mode, names in needed.items():
        if lacking := sorted(set(names) - saved):
            raise errors.UsageError(
                f"model_fn in mode {mode!r} has variables that mode 'train' does not have "
                f"({', '.join(lacking)}), so no checkpoint has them; its variables must have the "
                "same names in every mode"
            )


def describe_changes(how: str, variables: Iterable[_Variable]) -> str | None:
    """Returns one line on what a step changes of the trained variables; `None` if it changes all of
    each, and none is a table."""
    by_row: dict[bool, list[_Variable]] = {True: [], False: []}
    for variable in variables:
        by_row[variable.by_row].append(variable)
    if not by_row[True]:
        return None
    rows = sum(one.shape[0] for one in by_row[True])
    names = {one.name for one in by_row[True]}
    tables = f"{len(names)} table{'s' if len(names) > 1 else ''}"
    held, whole = (sum(one.bytes for one in by_row[kind]) for kind in (True, False))
    return (
        f"{how}: of {tables} with {rows:,} rows in all ({_format_size(held)}), a step changes only "
        f"the rows its batch asks for; of the other parameters ({_format_size(whole)}) it "
        "changes all"
    )


def check_memory(
    variables: Iterable[_Variable], memory_of: Mapping[int | None, tuple[str, int]]
) -> None:
    """Raises `UsageError` if a host has less memory than its variables take while they are saved:
    TensorFlow then copies what is changed by rows."""
    held: dict[str, int] = collections.defaultdict(int)
    needed: dict[str, int] = collections.defaultdict(int)
    available: dict[str, int] = {}
    servers: dict[str, set[int]] = collections.defaultdict(set)
    shapes: dict[str, tuple[int, ...]] = {}
    total: dict[str, int] = collections.defaultdict(int)
    for one in variables:
        if one.server not in memory_of:
            continue
        host, size = memory_of[one.server]
        held[host] += one.bytes
        needed[host] += (2 if one.by_row else 1) * one.bytes
        available[host] = max(size, available.get(host, 0))
        if one.server is not None:
            servers[host].add(one.server)
        shapes[one.name] = one.whole
        total[one.name] += one.bytes
    for host, bytes_ in needed.items():
        if bytes_ <= available[host]:
            continue
        name = max(total, key=total.__getitem__)
        of = ", ".join(f"ps-{server}" for server in sorted(servers[host]))
        raise errors.UsageError(
            f"{of + ' on ' if of else ''}{host}: the variables of the model take "
            f"{_format_size(held[host])}, up to {_format_size(bytes_)} while they are saved, and "
            f"{_format_size(available[host])} of memory are free; "
            f"{_explain_size(name, shapes[name], total)}. Use a smaller embedding, fewer ids "
            "(hash: buckets), train.optimizer.name=sgd, which remembers nothing, or cluster.ps on "
            "more hosts"
        )


def _explain_size(name: str, shape: tuple[int, ...], total: Mapping[str, int]) -> str:
    """Returns how the size of a variable, and of what an optimizer remembers of it, comes about."""
    like = [other for other in total if other == name or other.startswith(f"{name}/")]
    each = total[name] // max(1, _count(shape))
    product = " x ".join(f"{length:,}" for length in (*shape, each))
    copies = f" x {len(like)} (with what the optimizer remembers)" if len(like) > 1 else ""
    return (
        f"{name!r} alone is {product} bytes{copies} = {_format_size(sum(total[o] for o in like))}"
    )


def _describe(variable: Any) -> _Variable:
    variable = getattr(variable, "values", [variable])[0]
    info, size = (
        getattr(variable, "_save_slice_info", None),
        _count(variable.shape) * variable.dtype.size,
    )
    name = variable.op.name if info is None else info.full_name
    ops = [op.type for op in variable.handle.consumers()] if hasattr(variable, "handle") else []
    return _Variable(
        name,
        tuple(variable.shape.as_list()),
        tuple(variable.shape.as_list() if info is None else info.full_shape),
        size,
        tf.DeviceSpec.from_string(variable.device).task if "ps" in variable.device else None,
        by_row=any(kind.startswith(_OF_ROWS) for kind in ops),
    )


def _await_known(
    known: Callable[[], dict[int | None, tuple[str, int]]], count: int, *, patience: float
) -> dict[int | None, tuple[str, int]]:
    until = time.monotonic() + patience
    while len(found := known()) < count and time.monotonic() < until:
        time.sleep(0.2)
    return found


def _count(shape: Any) -> int:
    return int(tf.TensorShape(shape).num_elements() or 0)


def _format_size(count: float) -> str:
    for unit, one in (("GB", 1e9), ("MB", 1e6)):
        if count >= one:
            return f"{count / one:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"
