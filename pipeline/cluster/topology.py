"""Which processes there are, which of them this one is, and what each must be told.

Pure functions of data: nothing here looks at the environment or opens a port. What
`TF_CONFIG` holds is made here; `RunConfig` is not asked for role or rank, because it gives wrong
answers on one of TensorFlow's two cluster paths
(docs/tensorflow-pitfalls.md#wrong-role-in-runconfig).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import config, errors
from pipeline.config.strategy_table import STRATEGIES, Range

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"
ROLES = (CHIEF, WORKER, PS, EVALUATOR)
TRAINING_ROLES = (CHIEF, WORKER)
_SHOWN = 500  # characters of what is not JSON
# `host:port`, or `[address]:port` of IPv6.
_ADDRESS = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+(?:%\w+)?\]):(?P<port>[0-9]{1,5})")
# The keys of the config that say how many there are of a role.
_COUNTED = {"workers": WORKER, "ps": PS}


def role_counts(cluster: config.Cluster) -> dict[str, int]:
    """Returns how many processes of each role to start.

    Raises `UsageError` if the strategy cannot run with the counts asked for, before anything
    starts, with the nearest setting that can.
    """
    strategy = STRATEGIES[cluster.strategy]
    workers = _count("workers", cluster.workers, strategy.workers, name=cluster.strategy)
    ps = _count("ps", cluster.ps, strategy.ps, name=cluster.strategy)
    replicas_per_process(cluster)
    return {CHIEF: 1, WORKER: workers, PS: ps, EVALUATOR: int(strategy.own_evaluator)}


def describe_counts(counts: Mapping[str, int]) -> str:
    """Returns how many processes of each role there are, for people: `1 chief, 2 workers, 1 ps`."""
    plural = {CHIEF: "chiefs", WORKER: "workers", EVALUATOR: "evaluators"}
    return ", ".join(
        f"{number} {role if number == 1 else plural.get(role, role)}"
        for role, number in counts.items()
        if number
    )


def worker_places(cluster: config.Cluster) -> int:
    """Returns how many workers the cluster has an address for: those that it starts with, and those
    that may join while it trains."""
    return max(role_counts(cluster)[WORKER], cluster.max_workers or 0)


def replicas_per_process(cluster: config.Cluster) -> int:
    """Returns how many copies of the model one training process holds."""
    strategy = STRATEGIES[cluster.strategy]
    # Devices and replicas that the strategy does not use are those of `eval_strategy`.
    named = len(cluster.devices) if "devices" in strategy.keys else 0
    evaluating = STRATEGIES[cluster.eval_strategy]
    for_evaluation = strategy.replicas[2] == 1 and evaluating.replicates
    given = named or (None if for_evaluation else cluster.replicas)
    return _count("replicas", given, strategy.replicas, name=cluster.strategy)


def count_evaluating_replicas(cluster: config.Cluster) -> int:
    """Returns how many copies of the model the evaluating process holds."""
    if not STRATEGIES[cluster.eval_strategy].replicates:
        return 1
    return len(cluster.devices) or cluster.replicas or 2


def examples_per_step(job: config.Config) -> int:
    """Returns how many examples one global step applies: of all replicas in synchronous
    strategies, of one process in asynchronous ones."""
    return batch_per_replica(job) * replicas_in_step(job.cluster)


def examples_per_process(job: config.Config) -> int:
    """Returns how many examples one process takes a step: of all its replicas."""
    return batch_per_replica(job) * replicas_per_process(job.cluster)


def batch_per_replica(job: config.Config) -> int:
    """Returns how many examples one replica takes a step.

    Raises `UsageError` if those of a global batch cannot be shared evenly.
    """
    size, replicas = job.train.batch_size, replicas_in_step(job.cluster)
    if job.train.batch_size_is == "per_replica":
        return size
    if size % replicas:
        below = size - size % replicas
        nearest = " or ".join(str(n) for n in (below, below + replicas) if n)
        raise errors.UsageError(
            f"train.batch_size: {size} examples cannot be shared evenly by {replicas} replicas; "
            f"use {nearest}, or batch_size_is=per_replica"
        )
    return size // replicas


def replicas_in_step(cluster: config.Cluster) -> int:
    """Number of gradients that make one update."""
    replicas = replicas_per_process(cluster)
    if STRATEGIES[cluster.strategy].synchronous:
        replicas *= 1 + role_counts(cluster)[WORKER] - cluster.backup_workers
    return replicas


def learning_rate(job: config.Config) -> float:
    """Returns the learning rate after scaling by the number of replicas that step together."""
    ratio = replicas_in_step(job.cluster)
    scale = {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}
    return job.train.optimizer.learning_rate * scale[job.train.optimizer.scale]


def _count(key: str, given: int | None, allowed: Range, *, name: str) -> int:
    fewest, default, most = allowed
    if given is None:
        return default
    nearest = max(fewest, given if most is None else min(given, most))
    if given == nearest:
        return given
    others = [
        other
        for other, strategy in STRATEGIES.items()
        if _accepts(getattr(strategy, key), given) and other != name
    ]
    instead = f" or strategy {others[0]!r}" if others else ""
    raise errors.UsageError(
        f"cluster.{key}: strategy {name!r} ({STRATEGIES[name].summary}) cannot run with {given}; "
        f"use {key}={nearest}{instead}"
    )


def _accepts(allowed: Range, given: int) -> bool:
    return given >= allowed[0] and (allowed[2] is None or given <= allowed[2])


# So many processes may look at a shared folder as often as a single one would.
_AT_FULL_PACE = 20


@dataclasses.dataclass(frozen=True)
class Task:
    """One process of a cluster. An empty `cluster` is a single process without peers.

    `cluster` maps role to `host:port` addresses, in order of task index. The evaluator is a role
    but not a member: it talks to no one and needs no address.
    """

    job_name: str
    task_index: int
    cluster: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.job_name not in ROLES:
            raise errors.UsageError(
                f"--job_name {self.job_name!r}: must be one of {', '.join(ROLES)}"
                f"{errors.suggest(self.job_name, ROLES)}"
            )
        known = max(1, len(self.cluster.get(self.job_name, ())))
        if self.job_name == EVALUATOR or not self.cluster:
            known = 1
        elif self.job_name not in self.cluster:
            raise errors.UsageError(
                f"--job_name {self.job_name!r}: the cluster has only {', '.join(self.cluster)}"
            )
        if not 0 <= self.task_index < known:
            raise errors.UsageError(
                f"--task_index {self.task_index}: there are {known} of {self.job_name}, "
                f"so it must be 0{f' to {known - 1}' if known > 1 else ''}"
            )

    @property
    def name(self) -> str:
        """Returns for instance `worker-0`: what logs and status files are called."""
        return f"{self.job_name}-{self.task_index}"

    @property
    def address(self) -> str:
        """Returns the `host:port` at which other processes of the cluster reach this one; empty for
        an evaluator and for a process alone, which start no server."""
        members = self.cluster.get(self.job_name, ())
        return members[self.task_index] if members else ""

    @property
    def processes(self) -> int:
        """How many processes the run has, the evaluator of a cluster included."""
        return sum(map(len, self.cluster.values())) + 1 if self.cluster else 1

    def spread(self, interval: float) -> float:
        """Returns an interval between looks at a folder that all processes share: the more they
        are, the less often each may look."""
        return interval * max(1.0, self.processes / _AT_FULL_PACE)

    @property
    def is_chief(self) -> bool:
        """The one process that writes checkpoints and train events."""
        return self.job_name == CHIEF

    @property
    def rank(self) -> int:
        """Position among the processes that read training data: chief 0, worker i is i + 1."""
        if self.job_name not in TRAINING_ROLES:
            raise ValueError(f"{self.name} reads no training data")
        return 0 if self.is_chief else self.task_index + 1

    @property
    def num_readers(self) -> int:
        """Number of processes that share the training data."""
        return 1 + len(self.cluster.get(WORKER, ()))

    def tf_config(self) -> str:
        """Returns the `TF_CONFIG` for this process.

        The evaluator gets no cluster: with one, it is asked for its own address
        (docs/tensorflow-pitfalls.md#evaluator-outside-the-cluster).
        """
        if not self.cluster or self.job_name == EVALUATOR:
            return "{}"
        cluster = {role: list(addresses) for role, addresses in self.cluster.items()}
        return json.dumps(
            {"cluster": cluster, "task": {"type": self.job_name, "index": self.task_index}}
        )


def cluster_of(counts: Mapping[str, int], addresses: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Deals addresses to the members (chief, workers, parameter servers) of a cluster.

    A chief alone needs no cluster: it gets an empty one.
    """
    roles = [role for role in (CHIEF, WORKER, PS) for _ in range(counts.get(role, 0))]
    if len(roles) == 1:
        return {}
    cluster: dict[str, list[str]] = {}
    for role, address in zip(roles, addresses, strict=True):
        cluster.setdefault(role, []).append(address)
    return {role: tuple(members) for role, members in cluster.items()}


def with_counts(job: config.Config, task: Task) -> config.Config:
    """Returns `job` with the numbers of processes of the cluster that `task` is part of.

    The evaluator may be started without addresses; it takes the config at its word. Where there
    are as many addresses as `cluster.max_workers`, some may be of workers that join later. Raises
    `UsageError` if the strategy cannot run with them.
    """
    counts: Mapping[str, int] = {role: len(members) for role, members in task.cluster.items()}
    if task.job_name == EVALUATOR and not task.cluster:
        counts = role_counts(job.cluster)
    elif job.cluster.max_workers is not None and counts.get(WORKER) == job.cluster.max_workers:
        counts = {**counts, WORKER: role_counts(job.cluster)[WORKER]}
    update = {key: counts.get(role, 0) for key, role in _COUNTED.items()}
    counted = job.model_copy(update={"cluster": job.cluster.model_copy(update=update)})
    role_counts(counted.cluster)
    return counted


def parse_cluster_spec(text: str) -> dict[str, tuple[str, ...]]:
    """Reads `--cluster_spec`, a JSON object from role to a list of `host:port`."""
    spec = parse_object(text, "--cluster_spec", "an object of role: [host:port]")
    return check_cluster(spec, "--cluster_spec")


def parse_object(text: str, source: str, wanted: str = "an object") -> dict[str, Any]:
    """Returns the JSON object that `source` gives; an empty one for no text. Raises `UsageError`
    that says that it must be what is `wanted`."""
    try:
        content = json.loads(text or "{}", parse_int=str)
    except (ValueError, RecursionError) as error:  # nesting without end, too
        raise errors.UsageError(f"{source} {_cut(text)}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise errors.UsageError(f"{source} {_cut(text)}: must be {wanted}")
    return content


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def check_cluster(spec: Mapping[str, object], source: str) -> dict[str, tuple[str, ...]]:
    """Returns the cluster that `source` gives as role to list of `host:port`, less the evaluator,
    which needs no address. Raises `UsageError` for anything else."""
    for role, members in spec.items():
        if role not in ROLES:
            raise errors.UsageError(
                f"{source}: unknown role {role!r}{errors.suggest(role, ROLES)}; "
                f"known: {', '.join(ROLES)}"
            )
        if not isinstance(members, list) or not all(_is_address(m) for m in members):
            raise errors.UsageError(
                f"{source}: {role}: must be a list of 'host:port', or '[IPv6]:port', got "
                f"{members!r}"
            )
    cluster = {r: tuple(m) for r, m in spec.items() if r != EVALUATOR and isinstance(m, list)}
    if spec and len(cluster.get(CHIEF, ())) != 1:
        raise errors.UsageError(f"{source}: must have exactly one chief")
    _check_apart(cluster, source)
    return cluster


def _check_apart(cluster: Mapping[str, Sequence[str]], source: str) -> None:
    """Two processes at one address would wait for each other, until one cannot open its port."""
    at: dict[str, str] = {}
    for role, members in cluster.items():
        for index, address in enumerate(members):
            name = f"{role}-{index}"
            if address in at:
                raise errors.UsageError(
                    f"{source}: {at[address]} and {name} are both at {address}; give each process "
                    "a port of its own"
                )
            at[address] = name


def _is_address(value: object) -> bool:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    return match is not None and 0 < int(match["port"]) < 65536
