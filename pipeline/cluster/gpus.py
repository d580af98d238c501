"""Which GPUs this machine has, without loading TensorFlow, and which of them a process gets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.cluster.topology import EVALUATOR, PS
from pipeline.config import strategy_table

# What CUDA takes for the GPUs that a process sees.
VARIABLE = "CUDA_VISIBLE_DEVICES"
# Set by a place that has given the machine of a process so many GPUs; a whole number.
PROMISED = "PIPELINE_GPUS"


def list_visible(environment: Mapping[str, str], devices: str = "/dev") -> list[str]:
    """Returns what CUDA calls the NVIDIA GPUs that processes with this environment may use."""
    names = os.listdir(devices) if os.path.isdir(devices) else []
    present = sum(re.fullmatch(r"nvidia\d+", name) is not None for name in names)
    given = environment.get(VARIABLE)
    if given is None:
        return [str(index) for index in range(present)]
    # As CUDA reads it: everything behind the first entry that is not a device is out of sight.
    listed = [entry.strip() for entry in given.split(",")]
    valid = next((n for n, e in enumerate(listed) if e in ("", "-1")), len(listed))
    return listed[: min(present, valid)]


def count(environment: Mapping[str, str], devices: str = "/dev") -> int:
    """Returns how many GPUs `list_visible` does."""
    return len(list_visible(environment, devices))


def gpus_per_process(cluster: config.Cluster, gpus: int) -> int:
    """Returns how many of the `gpus` of one machine, on which all processes of a run are, each that
    trains uses; at least 1. Raises `UsageError` if a config asks for more than there are."""
    trainers = 1 + topology.worker_places(cluster)
    most = max(1, gpus // trainers)
    if not strategy_table.STRATEGIES[cluster.strategy].uses_all_gpus or cluster.devices:
        return max(1, len(cluster.devices))
    if gpus and cluster.replicas is not None and cluster.replicas > most:
        raise errors.UsageError(
            f"cluster.replicas: {cluster.replicas} in each of {trainers} processes, but this "
            f"machine has {gpus} GPUs; use replicas={most}, or fewer workers"
        )
    return cluster.replicas or most


def with_replicas(job: config.Config, gpus: int) -> config.Config:
    """Returns `job` with a replica for each of the `gpus` that a process sees, if its strategy uses
    all and it does not say itself how many: all that counts examples goes by the config."""
    cluster = job.cluster
    uses_all = strategy_table.STRATEGIES[cluster.strategy].uses_all_gpus
    if not uses_all or gpus < 2 or cluster.replicas or cluster.devices:
        return job
    return job.model_copy(update={"cluster": cluster.model_copy(update={"replicas": gpus})})


def share(
    task: topology.Task, *, there: Sequence[str], each: int, evaluating: str = "none"
) -> list[str] | None:
    """Returns which of the GPUs that are `there` a process of this machine sees; `None` for all.

    Each process of a cluster that trains gets `each` of its own. If there are too few for that,
    each gets one, which it has to share. Parameter servers get none, and the evaluator one that is
    left, or none; it sees all if its strategy, `evaluating`, chooses among devices.
    """
    if task.job_name == PS:
        return []
    trainers = task.num_readers
    if not there or trainers == 1:
        return None
    if task.job_name == EVALUATOR:
        chooses = "devices" in strategy_table.STRATEGIES[evaluating].keys
        return None if chooses else list(there[trainers * each :][:1])
    if trainers * each > len(there):
        return [there[task.rank % len(there)]]
    return list(there[task.rank * each :][:each])


def check_promised(environment: Mapping[str, str], seen: int) -> None:
    """Raises `UsageError` if a process was promised GPUs, and TensorFlow has `seen` none: it would
    train on the CPU of a machine that costs ten times as much."""
    promised = environment.get(PROMISED, "")
    if promised.isdigit() and int(promised) and not seen:
        raise errors.UsageError(
            f"this machine has {promised} GPUs by the config, and TensorFlow sees none. Use an "
            "image with CUDA (make image CUDA=yes); its driver must be in LD_LIBRARY_PATH, as "
            "/usr/local/nvidia/lib64"
        )
