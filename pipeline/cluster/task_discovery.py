"""How a process learns its place in a cluster: flags, `TF_CONFIG`, or Vertex AI's `CLUSTER_SPEC`.

The caller passes flags and variables. The flags win. `TF_CONFIG` and `CLUSTER_SPEC` must name the
same process of the same roles; where their hosts differ, those of `CLUSTER_SPEC` count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pipeline import errors
from pipeline.cluster import topology
from pipeline.cluster.topology import CHIEF, EVALUATOR, PS, WORKER, Task

# Worker pools of a Vertex AI job, in their order (docs/tensorflow-pitfalls.md#worker-pools).
_POOLS = {
    "workerpool0": CHIEF,
    "workerpool1": WORKER,
    "workerpool2": PS,
    "workerpool3": EVALUATOR,
}
# What TensorFlow 1 called the chief, and Google's services still may.
_MASTER = "master"


def task_of(
    environment: Mapping[str, str],
    *,
    job_name: str | None,
    task_index: int,
    cluster_spec: str = "",
    hosts: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = print,
) -> Task:
    """Returns which process this is; `tell` gets a line if two variables have different hosts.

    `job_name` is `None` if no flag says it; `hosts` maps chief, worker and ps to what
    `--chief_hosts`, `--worker_hosts` and `--ps_hosts` give. Raises `UsageError` for flags or
    variables that cannot be understood or contradict each other.
    """
    cluster = _parse_cluster_flags(cluster_spec, hosts or {})
    if cluster or task_index or job_name is not None:
        return _build_task(job_name or CHIEF, task_index, cluster)
    ours = read_tf_config(environment.get("TF_CONFIG", ""))
    services = read_cluster_spec(environment.get("CLUSTER_SPEC", ""))
    if ours is None or services is None:
        return ours or services or Task(CHIEF, 0)
    if _name(ours) != _name(services):
        raise errors.UsageError(
            f"TF_CONFIG makes this process {_name(ours)}, CLUSTER_SPEC {_name(services)}. "
            "Unset one of them, or give --job_name, --task_index and --cluster_spec"
        )
    if ours != services:
        tell(f"note: {_describe_difference(ours, services)}; CLUSTER_SPEC counts")
    return services


def read_tf_config(text: str) -> Task | None:
    """Reads `TF_CONFIG`; `None` if it names neither a cluster nor a task."""
    content = topology.parse_object(text, "TF_CONFIG")
    return _read_task(
        content, "TF_CONFIG", {**{role: role for role in topology.ROLES}, _MASTER: CHIEF}
    )


def read_cluster_spec(text: str) -> Task | None:
    """Reads `CLUSTER_SPEC`, in which roles are pools by number; `None` if it names neither a
    cluster nor a task."""
    content = topology.parse_object(text, "CLUSTER_SPEC")
    return _read_task(content, "CLUSTER_SPEC", _POOLS)


def _read_task(content: Mapping[str, Any], source: str, roles: Mapping[str, str]) -> Task | None:
    named, task = content.get("cluster") or {}, content.get("task") or {}
    if not named and not task:
        return None
    if not isinstance(named, dict) or not isinstance(task, dict) or "type" not in task:
        raise errors.UsageError(
            f"{source}: must have a cluster and a task with type and index, got {dict(content)!r}"
        )
    for name in (*named, task["type"]):
        if not isinstance(name, str) or name not in roles:
            hint = errors.suggest(str(name), roles)
            raise errors.UsageError(f"{source}: unknown role {name!r}{hint}")
    index = str(task.get("index", 0))
    if not re.fullmatch("[0-9]{1,9}", index):
        raise errors.UsageError(f"{source}: task index {index!r}: must be a number from 0 on")
    if named.get(CHIEF) and named.get(_MASTER):
        raise errors.UsageError(
            f"{source}: has a chief and a master, which are two names for one role; give one"
        )
    spec = {roles[name]: members for name, members in named.items() if members}
    return _build_task(roles[task["type"]], int(index), topology.check_cluster(spec, source))


def _parse_cluster_flags(cluster_spec: str, hosts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    given = {role: text.split(",") for role, text in hosts.items() if text}
    if cluster_spec and given:
        flags = ", ".join(f"--{role}_hosts" for role in given)
        raise errors.UsageError(f"--cluster_spec and {flags}: give one or the other")
    if cluster_spec:
        return topology.parse_cluster_spec(cluster_spec)
    members = {role: [host.strip() for host in listed] for role, listed in given.items()}
    return topology.check_cluster(members, "--chief_hosts, --worker_hosts, --ps_hosts")


def _build_task(job_name: str, task_index: int, cluster: Mapping[str, tuple[str, ...]]) -> Task:
    """A chief alone is a single process: it needs no cluster."""
    if not cluster and job_name in (WORKER, PS):
        raise errors.UsageError(
            f"{job_name}-{task_index} has no cluster: give the addresses of all tasks by TF_CONFIG "
            "or --cluster_spec; a single process is a chief"
        )
    alone = sum(map(len, cluster.values())) == 1
    return Task(job_name, task_index, {} if alone else cluster)


def _describe_difference(one: Task, other: Task) -> str:
    """Returns where the addresses of two clusters of the same roles differ first."""
    for role, members in one.cluster.items():
        for index, pair in enumerate(zip(members, other.cluster[role], strict=True)):
            if pair[0] != pair[1]:
                return f"TF_CONFIG has {role}-{index} at {pair[0]}, CLUSTER_SPEC at {pair[1]}"
    return "TF_CONFIG and CLUSTER_SPEC differ"


def _name(task: Task) -> str:
    counts = {role: len(task.cluster.get(role, ())) for role in topology.ROLES}
    return f"{task.name} of {topology.describe_counts(counts) or 'nothing else'}"
