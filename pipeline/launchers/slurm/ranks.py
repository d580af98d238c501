"""Which process of a job a task of a Slurm step is, and the ports it may listen on. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pipeline import errors
from pipeline.cluster import topology
from pipeline.cluster.topology import EVALUATOR, Task

# What our Slurm job tells its steps: {"hosts": [address of each node], "port": the first of as many
# as there are processes, "counts": {role: int}, "places": [address of each worker that may join]}.
SLURM = "PIPELINE_SLURM"
# As Slurm shortens a list of numbers: `4,2(x3)`.
_REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def task_of(environment: Mapping[str, str]) -> Task:
    """Reads which process of a job of ours this is.

    Ranks are chief, workers, parameter servers and evaluator, in this order, and fill one node
    after the other. Each has a port of its own, so that a node may run several. Raises `UsageError`
    for variables that are missing or do not fit together.
    """
    try:
        place = json.loads(environment[SLURM])
        rank, node = int(environment["SLURM_PROCID"]), int(environment["SLURM_NODEID"])
        per_node = parse_node_counts(environment["SLURM_STEP_TASKS_PER_NODE"])
        hosts, port, counts = place["hosts"], int(place["port"]), place["counts"]
        joining = tuple(place["places"])
    except (KeyError, ValueError, TypeError) as error:
        raise errors.UsageError(f"{SLURM}: not a step of a job of ours ({error!r})") from None
    places = [host for host, count in zip(hosts, per_node, strict=False) for _ in range(count)]
    roles = [(role, i) for role in topology.ROLES for i in range(counts.get(role, 0))]
    if len(per_node) != len(hosts) or len(places) != len(roles) or hosts[node] != places[rank]:
        raise errors.UsageError(
            f"{SLURM}: {len(roles)} processes on {len(hosts)} nodes do not fit rank {rank} of "
            f"SLURM_STEP_TASKS_PER_NODE={environment['SLURM_STEP_TASKS_PER_NODE']}"
        )
    addresses = [f"{host}:{port + number}" for number, host in enumerate(places)]
    members = len(roles) - counts.get(EVALUATOR, 0)
    cluster = topology.cluster_of(counts, addresses[:members])
    if joining:
        cluster[topology.WORKER] = (*cluster.get(topology.WORKER, ()), *joining)
    return Task(*roles[rank], cluster)


def parse_node_counts(text: str) -> list[int]:
    """Returns the tasks of each node, of text such as `4,2(x3)`. Raises `ValueError` for other
    text."""
    found = [_REPEATED.fullmatch(part) for part in text.split(",")]
    if None in found:
        raise ValueError(f"{text!r}: not numbers of tasks")
    return [int(m[1]) for m in found if m is not None for _ in range(int(m[2] or 1))]


# Primes: jobs with neighbouring numbers, and attempts of one job, get ports far apart.
_JOB_STRIDE, _ATTEMPT_STRIDE = 977, 6151


def choose_first_port(job: int, attempt: int, count: int, *, lowest: int, highest: int) -> int:
    """Returns the first of `count` ports from `lowest` to `highest` for one attempt of a Slurm job.

    Raises `UsageError` if there are not so many.
    """
    room = highest - lowest + 2 - count
    if room < 1:
        raise errors.UsageError(
            f"slurm.first_port, slurm.last_port: {count} processes need as many ports, and there "
            f"are {highest - lowest + 1}"
        )
    return lowest + (job * _JOB_STRIDE + attempt * _ATTEMPT_STRIDE) % room
