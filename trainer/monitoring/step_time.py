"""Where the time of one step went, from TensorFlow's trace of it.

What can be measured: when each op of the step ran, on every device of the step, parameter servers
included. Each moment counts once: as compute if anything computes, else as exchange if parameters
or gradients are on their way (or waited for), else as input if the next batch is waited for; the
rest, which is TensorFlow's and Python's own, is other. So `exchange` is what is not hidden behind
computation. Within one process gradients of replicas are added up by ordinary ops: that is
compute.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

KINDS = ("compute", "exchange", "input")
_INPUT = re.compile(r"IteratorGetNext|MultiDeviceIteratorGetNext|IteratorFromStringHandle")
_EXCHANGE = re.compile(r"_?(Host)?(Send|Recv)$|RecvTensor|Collective|Nccl|QueueDequeue")
# They only hold others, or stand for the whole graph.
_EMPTY = re.compile(r"NoOp|_SOURCE|_SINK|Const|Identity|PartitionedCall|RemoteCall|While|If")
_SERVER = re.compile(r"/job:ps\b")


@dataclasses.dataclass(frozen=True)
class StepBreakdown:
    """The `seconds` of a step that are `compute`, `exchange`, `input` and `other`."""

    seconds: dict[str, float]
    # Seconds in which the batch was waited for while something else ran, which are its.
    hidden: float


def split(step_stats: Any, seconds: float) -> StepBreakdown:
    """Returns where the time of a step went that took `seconds` in all, from the `StepStats` of its
    trace.

    Tracing makes a step longer, so give the time of one without; what the trace has less of is
    `other`.
    """
    spans = [span for device in step_stats.dev_stats for span in _list_spans(device)]
    found, hidden = _sum_exclusive(spans)
    return StepBreakdown({**found, "other": max(0.0, seconds - sum(found.values()))}, hidden)


def _list_spans(device: Any) -> Iterable[tuple[float, float, str]]:
    """Yields begin and end in seconds, and the kind, of each op that ran on a device."""
    server = bool(_SERVER.search(device.device))
    for node in device.node_stats:
        kind = _classify(_parse_type(node), server)
        if kind is not None and node.all_end_rel_micros > 0:
            begin = node.all_start_micros * 1e-6
            yield begin, begin + node.all_end_rel_micros * 1e-6, kind


def _parse_type(node: Any) -> str:
    """Returns the op's type, which its label has: `name = MatMul(a, b)`."""
    match = re.search(r" = (\w+)\(", node.timeline_label)
    return match[1] if match else str(node.timeline_label or node.node_name)


def _classify(op: str, server: bool) -> str | None:
    if _INPUT.search(op):
        return "input"
    # What a parameter server does is applying gradients and giving out variables.
    if server or _EXCHANGE.search(op):
        return "exchange"
    return None if _EMPTY.match(op) else "compute"


def _sum_exclusive(spans: Iterable[tuple[float, float, str]]) -> tuple[dict[str, float], float]:
    """Returns the seconds of each kind, where earlier `KINDS` win over later ones, and those that
    input lost so."""
    edges = sorted(
        edge for begin, end, kind in spans for edge in ((begin, 1, kind), (end, -1, kind))
    )
    running = dict.fromkeys(KINDS, 0)
    total = dict.fromkeys(KINDS, 0.0)
    before = hidden = 0.0
    for time, change, kind in edges:
        current = next((k for k in KINDS if running[k]), None)
        if current is not None:
            total[current] += time - before
            hidden += time - before if running["input"] and current != "input" else 0.0
        running[kind] += change
        before = time
    return total, hidden
