"""Which settings can work together: what cannot is refused before a process starts.

TensorFlow itself lets most of it begin, and then hangs, trains alone or writes no checkpoint
(docs/tensorflow-pitfalls.md#strategies-and-clusters, #no-summaries-no-checkpoints).
Pure functions of the config, and of the number of GPUs of a machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.config import cluster_config, strategy_table

# On a CPU, or on one GPU, these hang before the first step.
_GPU_REDUCTIONS = ("nccl", "hierarchical_copy")
_DEVICE = re.compile(r"/?(?:device:)?(cpu|gpu):(\d+)", re.IGNORECASE)
_AVERAGING = [name for name, strategy in strategy_table.STRATEGIES.items() if strategy.averages]
# Every worker keeps its own list of the chief's checkpoints and deletes by it
# (docs/tensorflow-pitfalls.md#workers-that-delete-checkpoints).
_FEWEST_CHECKPOINTS = 3
# Values besides the defaults that change nothing: one replica, and an earlier default.
_USUAL = (("replicas", 1), ("partition_bytes", cluster_config.LARGE_VARIABLE))


def check(job: config.Config) -> None:
    """Raises `UsageError` for settings that cannot work, with the nearest that can."""
    topology.role_counts(job.cluster)
    _check_keys(job.cluster)
    _check_devices(job.cluster)
    _check_backup_workers(job.cluster)
    _check_max_workers(job.cluster)
    topology.batch_per_replica(job)
    _check_split(job.data)
    _check_optimizer(job)
    check_groups(job)
    keep = job.train.keep_checkpoints
    strategy = job.cluster.strategy
    if strategy_table.STRATEGIES[strategy].reduces_between_processes and keep < _FEWEST_CHECKPOINTS:
        raise errors.UsageError(
            f"train.keep_checkpoints: {keep} is too few for strategy {strategy!r}, whose workers "
            "delete each other's checkpoints when they resume; use "
            f"keep_checkpoints={_FEWEST_CHECKPOINTS}"
        )


def _check_split(data: config.Data) -> None:
    if data.has_records and "eval" not in (*data.split.held_out, *data.inputs):
        raise errors.UsageError(
            "data.split: holds out nothing for eval, and training evaluates; hold rows out, such "
            "as split: {eval: 0.1}, or name files in data.inputs.eval"
        )


def _check_optimizer(job: config.Config) -> None:
    optimizer, strategy = job.train.optimizer, job.cluster.strategy
    if job.train.length is not None and optimizer.schedule.name != "constant":
        try:
            optimizer.schedule.decay_length(job.train.length.whole)
        except ValueError as error:
            raise errors.UsageError(f"train.optimizer.schedule: {error}") from None
    if optimizer.average is not None and strategy not in _AVERAGING:
        raise errors.UsageError(
            f"train.optimizer.average: strategy {strategy!r} keeps copies of parameters, of which "
            f"TensorFlow makes no moving average; leave it out, or use {', '.join(_AVERAGING)}"
        )
    evaluating = job.cluster.eval_strategy
    if optimizer.average is not None and strategy_table.STRATEGIES[evaluating].mirrors:
        raise errors.UsageError(
            f"train.optimizer.average: cluster.eval_strategy {evaluating!r} keeps copies of "
            "parameters, which TensorFlow does not read from averages; use eval_strategy=none"
        )
    servers = topology.role_counts(job.cluster)[topology.PS]
    if optimizer.average is not None and servers > 1:
        raise errors.UsageError(
            f"train.optimizer.average: {servers} parameter servers share large variables, whose "
            "averages could not be put together again; use cluster.ps=1"
        )


def check_groups(job: config.Config) -> None:
    """Raises `UsageError` if there is an `eval.group` and several replicas evaluate."""
    if job.eval.group is not None and topology.count_evaluating_replicas(job.cluster) > 1:
        raise errors.UsageError(
            f"eval.group: cluster.eval_strategy is {job.cluster.eval_strategy}; metrics by group "
            "need all predictions in one replica: use none or one_device"
        )


def check_machine(cluster: config.Cluster, gpus: int) -> None:
    """Raises `UsageError` if a machine with `gpus` GPUs lacks what `cluster` asks for.

    CPUs are never short: they are logical, as many as are named.
    """
    for key, device in _list_named_devices(cluster):
        kind, index = parse_device(device, key)
        if kind == "gpu" and index >= gpus:
            there = f"only {gpus} GPUs" if gpus else "no GPU"
            raise errors.UsageError(
                f"{key}: {device!r} does not exist, this machine has {there}; use "
                f"{f'/gpu:{gpus - 1}' if gpus else '/cpu:0'}"
            )
    replicas = topology.replicas_per_process(cluster)
    if gpus and not cluster.devices and replicas > gpus:
        raise errors.UsageError(
            f"cluster.replicas: {replicas}, but this machine has {gpus} GPUs; use "
            f"replicas={gpus}, or name the CPUs in cluster.devices"
        )
    if cluster.cross_device_ops in _GPU_REDUCTIONS and not cluster.devices and gpus < 2:
        raise _needs_gpus(cluster.cross_device_ops)
    if cluster.communication == "nccl" and not gpus:
        raise errors.UsageError(
            "cluster.communication: 'nccl' adds up on GPUs, and this machine has none; use 'ring'"
        )


def parse_device(device: str, key: str) -> tuple[str, int]:
    """Returns kind (`cpu` or `gpu`) and index of `/gpu:1`; `key` is where it was given."""
    match = _DEVICE.fullmatch(device)
    if match is None:
        raise errors.UsageError(f"{key}: {device!r} is not a device such as /cpu:0 or /gpu:1")
    return match[1].lower(), int(match[2])


def _list_named_devices(cluster: config.Cluster) -> list[tuple[str, str]]:
    named = [("cluster.devices", device) for device in cluster.devices]
    return [*named, ("cluster.parameter_device", cluster.parameter_device)]


def _check_keys(cluster: config.Cluster) -> None:
    used = {cluster.strategy, cluster.eval_strategy}
    for key, owners in strategy_table.OWNERS.items():
        given = getattr(cluster, key)
        # Defaults that a stored config spells out change nothing anywhere.
        usual = given == config.Cluster.model_fields[key].default or (key, given) in _USUAL
        if not usual and used.isdisjoint(owners):
            named = " and ".join(repr(owner) for owner in owners)
            raise errors.UsageError(
                f"cluster.{key}: strategy {cluster.strategy!r} ignores it; it belongs to {named}. "
                f"Remove it, or use strategy {owners[0]!r}"
            )


def _check_devices(cluster: config.Cluster) -> None:
    parsed = [parse_device(device, key) for key, device in _list_named_devices(cluster)][:-1]
    twice = [d for n, d in enumerate(cluster.devices) if parsed[n] in parsed[:n]]
    if twice:
        raise errors.UsageError(f"cluster.devices: {twice[0]!r} is named twice; name each once")
    strategy = strategy_table.STRATEGIES[cluster.strategy]
    if strategy.reduces_between_processes and len({kind for kind, _ in parsed}) > 1:
        raise errors.UsageError(
            f"cluster.devices: strategy {cluster.strategy!r} adds up between devices of one kind, "
            f"not {', '.join(cluster.devices)}; name only CPUs or only GPUs"
        )
    if cluster.devices and cluster.replicas not in (None, len(cluster.devices)):
        raise errors.UsageError(
            f"cluster.replicas: {cluster.replicas}, but cluster.devices names "
            f"{len(cluster.devices)}; use replicas={len(cluster.devices)}"
        )
    if cluster.cross_device_ops in _GPU_REDUCTIONS and cluster.devices and not _are_gpus(parsed):
        raise _needs_gpus(cluster.cross_device_ops)


def _are_gpus(parsed: Sequence[tuple[str, int]]) -> bool:
    return len(parsed) > 1 and all(kind == "gpu" for kind, _ in parsed)


def _needs_gpus(name: str) -> errors.UsageError:
    return errors.UsageError(
        f"cluster.cross_device_ops: {name!r} adds up between several GPUs and hangs without them; "
        "use 'reduction_to_one_device'"
    )


def _check_backup_workers(cluster: config.Cluster) -> None:
    processes = 1 + topology.role_counts(cluster)[topology.WORKER]
    if cluster.backup_workers >= processes:
        raise errors.UsageError(
            f"cluster.backup_workers: {cluster.backup_workers} of {processes} training processes "
            f"leaves no gradient to wait for; use backup_workers={processes - 1} at most"
        )


def _check_max_workers(cluster: config.Cluster) -> None:
    workers = topology.role_counts(cluster)[topology.WORKER]
    if cluster.max_workers is not None and workers > cluster.max_workers:
        raise errors.UsageError(
            f"cluster.max_workers: {cluster.max_workers} is less than the {workers} workers that "
            f"the run starts with; use max_workers={workers} or more"
        )
