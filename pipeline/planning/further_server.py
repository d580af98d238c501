"""What TensorFlow takes of processors for each further server that a step asks, on this machine.

Servers share the work of a step, but each is asked to run its part, and to tidy up behind it: that
is paid for once per server, whatever is computed. Runs with one number of servers cannot tell it
from the rest. So a step that does next to nothing is made with one server and with two, by two
clients at a time, as servers that many processes ask are seldom without work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import pydantic

from pipeline import errors
from pipeline.planning import observing
from pipeline.processes import environment, parent_death
from pipeline.supervision import ports

_SERVERS, _CLIENTS = 2, 2
_WARM_SECONDS, _SECONDS = 0.5, 3.0
_TENSORS = 8
_LIMIT = 120.0  # seconds for all of it


class FurtherServer(pydantic.BaseModel):
    """Processor seconds that a step takes more for each server beyond those that were measured: of
    the process that trains, and of all servers together."""

    model_config = pydantic.ConfigDict(frozen=True)

    worker: float
    server: float


def measure() -> FurtherServer:
    """Measures it in about 10 seconds. Raises `RetryableError` if that fails."""
    variables = {**environment.filter_for_children(os.environ), "CUDA_VISIBLE_DEVICES": ""}
    with ports.Reservation(_SERVERS + 1) as reserved:
        cluster = {"ps": reserved.addresses[:_SERVERS], "worker": reserved.addresses[_SERVERS:]}
        servers = []
        try:
            for index in range(_SERVERS):
                servers.append(_start(cluster, variables, "ps", str(index)))
            pids = [str(one.pid) for one in servers]
            client = _start(cluster, variables, "worker", *pids)
            servers.append(client)
            output, complaint = client.communicate(timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            raise errors.RetryableError(
                f"calibration: steps of {_SERVERS} servers were not made within {_LIMIT:g} s on "
                "this machine. Run the same command again"
            ) from None
        finally:
            for one in servers:
                one.kill()
                one.communicate()
    if client.returncode:
        last = (complaint.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
        raise errors.RetryableError(f"calibration: steps of {_SERVERS} servers failed: {last}")
    return FurtherServer.model_validate_json(output)


def _start(
    cluster: dict[str, list[str]], variables: dict[str, str], *words: str
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__, json.dumps(cluster), *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=parent_death.arrange(),
    )


def _main(words: Sequence[str]) -> None:
    """Is one of the processes: a server by its number, or the client of servers by their ids."""
    import tensorflow as tf

    cluster, job = json.loads(words[0]), words[1]
    if job == "ps":
        tf.distribute.Server(cluster, job_name=job, task_index=int(words[2])).join()
    target = tf.distribute.Server(cluster, job_name=job, task_index=0).target
    pids = [os.getpid(), *map(int, words[2:])]
    one, two = (_time_step(tf, target, servers, pids=pids) for servers in (1, 2))
    found = FurtherServer(
        worker=max(0.0, two[0] - one[0]), server=max(0.0, sum(two[1:]) - sum(one[1:]))
    )
    print(found.model_dump_json())


def _time_step(tf: Any, target: str, servers: int, *, pids: Sequence[int]) -> list[float]:
    """Returns the processor seconds that a step of so many servers takes of each process."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        weights = []
        for number in range(_TENSORS):
            with tf.device(f"/job:ps/task:{number % servers}"):
                name = f"weights-{servers}-{number}"
                weights.append(v1.get_variable(name, [1], initializer=v1.zeros_initializer()))
        with tf.device("/job:ps/task:0"):
            # As in a real job: all servers ask the first one for the learning rate of the step, and
            # it counts the step when all have applied theirs.
            made = v1.train.create_global_step()
            rate = 1e-9 * tf.cast(made, tf.float32)
        with tf.device("/job:worker/task:0"):
            loss = tf.add_n([tf.reduce_sum(2.0 * one) for one in weights])
            step = v1.train.GradientDescentOptimizer(rate).minimize(loss, made)
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            _repeat(session, step, _WARM_SECONDS)
            before = list(map(observing.processor_seconds, pids))
            steps = _repeat(session, step, _SECONDS)
            after = list(map(observing.processor_seconds, pids))
    return [(b - a) / steps for a, b in zip(before, after, strict=True)]


def _repeat(session: Any, step: Any, seconds: float) -> int:
    """Makes steps for so long, by all clients, and returns how many."""
    until, made = time.monotonic() + seconds, [0] * _CLIENTS

    def client(number: int) -> None:
        while time.monotonic() < until:
            session.run(step)
            made[number] += 1

    clients = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return sum(made)


if __name__ == "__main__":
    _main(sys.argv[1:])
