"""What a step asks of each parameter server, from TensorFlow's trace of it: rows of tables, and
bytes in both directions."""

from __future__ import annotations

import collections
import dataclasses
import re
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

# The label begins with bytes, or from 0.1 MB on with megabytes (worker_cache_logger.cc).
_EDGE = re.compile(r"^\[[\d.]+M?B\] \[[^]]*\] edge_\d+_(\S+) from (\S+) to (\S+)$")
_SERVER = re.compile(r"/job:ps(?:/replica:\d+)?/task:(\d+)\b")
_LOOKUP = " = ResourceGather("
_SAMPLES, _ENOUGH = 10, 3  # steps: those that a mean is of, and those that a warning takes
_TOO_MUCH = 1.5


@dataclasses.dataclass(frozen=True)
class Load:
    """The `rows` of tables that one step asks of a server, and the `bytes` to and from it, of which
    those from it are `pulled`."""

    rows: float = 0.0
    bytes: float = 0.0
    pulled: float = 0.0


def sum_by_server(step_stats: Any) -> dict[int, Load]:
    """Returns the load of each parameter server in the `StepStats` of one step."""
    sent: set[tuple[int, str]] = set()
    bytes_of: dict[int, int] = collections.defaultdict(int)
    pulled: dict[int, int] = collections.defaultdict(int)
    for device in step_stats.dev_stats:
        for node in device.node_stats:
            edge = _EDGE.match(node.timeline_label)
            if edge is None:
                continue
            source, target = (_SERVER.search(edge[end]) for end in (2, 3))
            size = sum(_count_bytes(output) for output in node.output)
            for server in (source, target):
                if server is not None:
                    bytes_of[int(server[1])] += size
            if source is not None:
                pulled[int(source[1])] += size
            if source is not None and target is None:
                sent.add((int(source[1]), edge[1]))
    rows_of = _count_rows(step_stats, sent)
    servers = sorted({*bytes_of, *rows_of})
    return {
        server: Load(rows_of.get(server, 0), bytes_of.get(server, 0), pulled.get(server, 0))
        for server in servers
    }


def _count_rows(step_stats: Any, sent: set[tuple[int, str]]) -> dict[int, int]:
    """Returns the rows that were looked up on each server and sent, as they are or joined with
    others: what an optimizer looks up stays there."""
    rows: dict[int, int] = collections.defaultdict(int)
    for device in step_stats.dev_stats:
        server = _SERVER.search(device.device)
        if server is None:
            continue
        nodes = {node.node_name: node for node in device.node_stats}
        waiting, seen = [name for number, name in sent if number == int(server[1])], set()
        while waiting:
            name = waiting.pop()
            if name not in nodes or name in seen:
                continue
            seen.add(name)
            label = nodes[name].timeline_label
            if _LOOKUP in label:
                rows[int(server[1])] += _get_row_count(nodes[name].output)
            else:
                waiting += _parse_inputs(label)
    return rows


def _parse_inputs(label: str) -> list[str]:
    """Returns `["one", "two"]` of a label `name = Kind(one, two:1, ^only_before)`."""
    given = label.partition("(")[2].rpartition(")")[0].split(", ")
    return [name.partition(":")[0] for name in given if not name.startswith("^")]


def _get_row_count(outputs: Any) -> int:
    """Returns how many rows the only output of a lookup has; its last axis is their width."""
    [output] = outputs
    count = 1
    for dimension in output.tensor_description.shape.dim[:-1]:
        count *= dimension.size
    return count


def _count_bytes(output: Any) -> int:
    return int(output.tensor_description.allocation_description.requested_bytes)


class ServerLoads:
    """The load of each server over the last traces of a process: mean rows, median bytes.

    A trace may lack transfers, because TensorFlow turns their log on as best it can while the step
    begins (`SetRPCLogging` in master_session.cc).
    """

    def __init__(self) -> None:
        self._samples: collections.deque[dict[int, Load]] = collections.deque(maxlen=_SAMPLES)

    def add(self, step_stats: Any) -> None:
        """Adds the trace of a step."""
        self._samples.append(sum_by_server(step_stats))

    @property
    def per_step(self) -> list[Load]:
        """The load of each server in a step, by its number; of one that was not asked, none."""
        count = max((1 + max(sample) for sample in self._samples if sample), default=0)
        return [
            Load(
                rows=_mean(sample.get(server, Load()).rows for sample in self._samples),
                bytes=_median(sample.get(server, Load()).bytes for sample in self._samples),
                pulled=_median(sample.get(server, Load()).pulled for sample in self._samples),
            )
            for server in range(count)
        ]

    def describe_imbalance(self) -> str | None:
        """Returns one line on a server that is asked for much more than the others, if any."""
        found = [dataclasses.asdict(load) for load in self.per_step]
        if len(self._samples) < _ENOUGH:
            return None
        for unit in ("rows", "bytes"):
            ratio, server = find_most_loaded(found, unit)
            if ratio > _TOO_MUCH:
                return (
                    f"ps-{server} is asked for {found[server][unit]:,.0f} {unit} a step, "
                    f"{ratio:.1f} times the mean of the servers; a small cluster.partition_bytes "
                    "cuts more variables over all of them"
                )
        return None


def find_most_loaded(loads: list[dict[str, float]], unit: str) -> tuple[float, int]:
    """Returns how many times the mean the most loaded of some servers has of `rows` or `bytes`, and
    which one that is; 1 if none has any."""
    values = [load[unit] for load in loads]
    mean = _mean(values)
    return (max(values) / mean, values.index(max(values))) if mean else (1.0, 0)


def build_summaries(loads: Iterable[Load]) -> Mapping[str, float]:
    """Returns scalars for TensorBoard, by tag."""
    found = {}
    for server, load in enumerate(loads):
        found[f"servers/rows/ps-{server}"] = load.rows
        found[f"servers/bytes/ps-{server}"] = load.bytes
    return found


def _median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def _mean(values: Iterable[float]) -> float:
    given = list(values)
    return sum(given) / len(given) if given else 0.0
