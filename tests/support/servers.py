"""TensorFlow's servers of a small cluster, all in the process of the test."""

from __future__ import annotations

import socket
from typing import Any

import tensorflow as tf

Spec = dict[str, tuple[str, ...]]


def start(counts: dict[str, int]) -> tuple[Spec, str, list[Any]]:
    """Starts so many servers of each role; returns their addresses, the target of a session with
    the first, and what keeps them alive."""
    taken = [socket.socket() for _ in range(sum(counts.values()))]
    for one in taken:
        one.bind(("localhost", 0))
    addresses = [f"localhost:{one.getsockname()[1]}" for one in taken]
    for one in taken:
        one.close()
    spec: Spec = {}
    for role, count in counts.items():
        first = sum(map(len, spec.values()))
        spec[role] = tuple(addresses[first : first + count])
    started = [
        tf.distribute.Server(spec, job_name=role, task_index=index)
        for role, of in spec.items()
        for index in range(len(of))
    ]
    return spec, started[0].target, started
