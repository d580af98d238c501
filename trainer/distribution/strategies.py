"""From the config to what `RunConfig` takes: train and eval strategies, devices, placement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy as all_reduce
from tensorflow.python.distribute import (
    device_util,
    distribute_lib,
    parameter_server_strategy,
)

from pipeline import config
from pipeline.cluster import compatibility, topology
from trainer.distribution import autotuner, sparse_gather

_distribute = tf.distribute
_PACK_BYTES = 1 << 20  # of gradients that travel together


@dataclasses.dataclass(frozen=True)
class Distribution:
    """The distributed part of a `RunConfig` for one process."""

    train: Any
    evaluate: Any
    # Logical CPU devices the session must have.
    cpu_devices: int


def build_distribution(
    cluster: config.Cluster, task: topology.Task, given: Any = None
) -> Distribution:
    """Returns the strategies for a process of `cluster`; to train, the one that is `given`.

    Must be called before any op has run in this process: devices and collectives are set up here.
    """
    training = task.job_name in topology.TRAINING_ROLES
    evaluating = task.job_name == topology.EVALUATOR or not task.cluster
    if not training and not evaluating:
        return Distribution(None, None, cpu_devices=1)
    compatibility.check_machine(cluster, len(tf.config.list_physical_devices("GPU")))
    devices = list(cluster.devices) or _list_default_devices(topology.replicas_per_process(cluster))
    eval_devices = list_evaluation_devices(cluster)
    build_train = _BUILDERS.get(cluster.strategy) if training else None
    build_eval = _BUILDERS.get(cluster.eval_strategy) if evaluating else None
    autotuner.keep_out_of_strategies()
    used = [*devices, cluster.parameter_device, *(eval_devices if build_eval else ())]
    return Distribution(
        train=given or build_train(cluster, devices) if build_train else None,
        evaluate=build_eval(cluster, eval_devices) if build_eval else None,
        cpu_devices=_count_cpus(used),
    )


def list_evaluation_devices(cluster: config.Cluster) -> list[str]:
    """Returns where the evaluating process has a replica each."""
    replicas = topology.count_evaluating_replicas(cluster)
    return list(cluster.devices[:replicas]) or _list_default_devices(replicas)


def _count_cpus(devices: list[str]) -> int:
    """Returns how many logical CPUs there must be for all of `devices` to exist."""
    parsed = [compatibility.parse_device(device, "cluster.devices") for device in devices]
    return max([1, *(index + 1 for kind, index in parsed if kind == "cpu")])


def _list_default_devices(replicas: int) -> list[str]:
    """Returns the GPUs, or as many logical CPUs as there are replicas."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    kind, count = ("gpu", min(gpus, replicas)) if gpus else ("cpu", replicas)
    return [f"/{kind}:{index}" for index in range(count)]


def _build_one_device(cluster: config.Cluster, devices: list[str]) -> Any:
    return _distribute.OneDeviceStrategy(devices[0])


def _build_mirrored(cluster: config.Cluster, devices: list[str]) -> Any:
    return _distribute.MirroredStrategy(
        devices, cross_device_ops=_choose_cross_device_ops(cluster, devices)
    )


def _choose_cross_device_ops(cluster: config.Cluster, devices: list[str]) -> Any:
    """The default hangs before the first step on several logical CPUs; this one does not."""
    name = cluster.cross_device_ops
    if name == "auto" and any("cpu" in device.lower() for device in devices):
        name = "reduction_to_one_device"
    kinds: Mapping[str, Callable[[], Any]] = {
        "auto": lambda: None,
        "nccl": _distribute.NcclAllReduce,
        "hierarchical_copy": _distribute.HierarchicalCopyAllReduce,
        "reduction_to_one_device": _distribute.ReductionToOneDevice,
    }
    return kinds[name]()


def _build_central_storage(cluster: config.Cluster, devices: list[str]) -> Any:
    return _distribute.experimental.CentralStorageStrategy(
        compute_devices=devices, parameter_device=cluster.parameter_device
    )


def _build_multi_worker_mirrored(cluster: config.Cluster, devices: list[str]) -> Any:
    # Estimator copies the strategy, which eager execution forbids
    # (docs/tensorflow-pitfalls.md#copied-strategies).
    tf.compat.v1.disable_eager_execution()
    sparse_gather.install()
    _choose_devices(devices)
    implementation = _distribute.experimental.CommunicationImplementation
    options = _distribute.experimental.CommunicationOptions(
        implementation=implementation[cluster.communication.upper()],
        # In one piece, nothing would be on its way while the rest is still being worked out.
        bytes_per_pack=_PACK_BYTES,
    )
    return _distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _choose_devices(devices: list[str]) -> None:
    """Has the all-reduce strategy make its replicas on `devices` of each process.

    By itself it makes one on each GPU that it sees, or one on the CPU, and its constructor takes no
    devices where there are several processes.
    """
    parsed = [compatibility.parse_device(device, "cluster.devices") for device in devices]
    kinds = {kind.upper() for kind, _ in parsed}
    (kind,) = kinds  # `compatibility` has checked it

    def choose(extended: Any, resolver: Any, worker: str) -> tuple[tuple[str, ...], str]:
        return tuple(f"{worker}/device:{kind}:{index}" for _, index in parsed), kind

    all_reduce.CollectiveAllReduceExtended._initialize_local_devices = choose


class _OnServers(parameter_server_strategy.ParameterServerStrategyV1):
    """The one class with parameter servers that Estimators accept
    (docs/tensorflow-pitfalls.md#strategies-and-clusters), with a replica on each of `devices`.

    By itself it makes one on each GPU that it sees, or one on the CPU.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        distribute_lib.StrategyV1.__init__(self, _OnServersExtended(self, devices))


class _OnServersExtended(parameter_server_strategy.ParameterServerStrategyExtended):
    def __init__(self, strategy: _OnServers, devices: Sequence[str]) -> None:
        self._devices = devices
        member = _distribute.cluster_resolver.TFConfigClusterResolver()
        super().__init__(strategy, cluster_resolver=member)

    def _initialize_multi_worker(self, cluster_resolver: Any) -> None:
        """Estimator calls it again, by `configure`, on copies of the strategy."""
        super()._initialize_multi_worker(cluster_resolver)
        worker = self._worker_device
        self._compute_devices = [device_util.canonicalize(d, worker) for d in self._devices]


def _build_parameter_server(cluster: config.Cluster, devices: list[str]) -> Any:
    return _OnServers(devices)


# `none` and the classic parameter server modes train without a strategy object.
_BUILDERS: Mapping[str, Callable[[config.Cluster, list[str]], Any]] = {
    "one_device": _build_one_device,
    "mirrored": _build_mirrored,
    "central_storage": _build_central_storage,
    "multi_worker_mirrored": _build_multi_worker_mirrored,
    "parameter_server_strategy": _build_parameter_server,
}
