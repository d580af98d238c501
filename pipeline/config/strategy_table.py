"""The distribution strategies: one row has all that tells one from the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

# Fewest, default and most of something; `None` is no upper bound.
Range = tuple[int, int, int | None]


@dataclasses.dataclass(frozen=True)
class Strategy:
    """What a distribution strategy asks of the processes.

    Counts are (fewest, default, most); `None` means no upper bound. The chief trains too, so
    one chief and one worker are two training processes.

    `replicas` are the copies of the model in one process, which make each of its steps together.
    In `synchronous` strategies those of all processes do: then the gang of training processes is
    restarted as one, otherwise the process that was lost is.
    """

    summary: str
    workers: Range = (0, 0, 0)
    ps: Range = (0, 0, 0)
    replicas: Range = (1, 1, 1)
    synchronous: bool = False
    # The keys of the section `cluster` that not all strategies look at.
    keys: tuple[str, ...] = ()
    # TensorFlow's classes of it, by which a strategy of a script's own is known; without the V1 at
    # the end of the names of older versions.
    classes: tuple[str, ...] = ()
    # True if every parameter is one variable, of which TensorFlow makes moving averages.
    averages: bool = False
    # True if each replica has variables of its own, so that an evaluation cannot read parameters
    # from their moving averages.
    mirrors: bool = False

    @property
    def servers(self) -> bool:
        """True if its variables lie on parameter servers."""
        return self.ps[2] is None

    @property
    def reduces_between_processes(self) -> bool:
        """True if several processes, each with all variables, add up their gradients; each saves
        when the chief does."""
        return self.own_evaluator and not self.servers

    @property
    def uses_all_gpus(self) -> bool:
        """True if each of several processes has a copy of the model on each GPU that it sees."""
        return self.own_evaluator and self.replicas[2] is None

    @property
    def asynchronous(self) -> bool:
        """True if each of several processes steps by itself."""
        return self.own_evaluator and not self.synchronous

    @property
    def restart_unit(self) -> Literal["task", "gang"]:
        """What is started again when a process is lost: it alone, or all that train together."""
        return "gang" if self.synchronous else "task"

    @property
    def own_evaluator(self) -> bool:
        """True if a process of its own evaluates; a single process does it in turn."""
        return self.workers[2] is None

    @property
    def evaluates(self) -> bool:
        """True if a process that evaluates can use it: nothing of it is in other processes."""
        return not self.own_evaluator

    @property
    def replicates(self) -> bool:
        """True if one process has several copies of the model unless told otherwise."""
        return self.replicas[1] > 1


# Errors suggest the first that fits, and texts list them in this order: put a special case behind
# the general one.
STRATEGIES: Mapping[str, Strategy] = {
    "none": Strategy("one process, no tf.distribute strategy", averages=True),
    "one_device": Strategy(
        "one process with all on one device",
        keys=("devices",),
        classes=("OneDeviceStrategy",),
        averages=True,
    ),
    "mirrored": Strategy(
        "one process with a copy of the model on each of several devices",
        replicas=(1, 2, None),
        synchronous=True,
        keys=("replicas", "devices", "cross_device_ops"),
        classes=("MirroredStrategy",),
        mirrors=True,
    ),
    "central_storage": Strategy(
        "one process with variables on one device and a tower on each of several",
        replicas=(1, 2, None),
        synchronous=True,
        keys=("replicas", "devices", "parameter_device"),
        classes=("CentralStorageStrategy",),
    ),
    "multi_worker_mirrored": Strategy(
        "processes that each hold a copy of the model and all-reduce gradients",
        workers=(1, 1, None),
        replicas=(1, 1, None),
        synchronous=True,
        keys=("communication", "replicas", "devices"),
        classes=("CollectiveAllReduceStrategy", "MultiWorkerMirroredStrategy"),
        mirrors=True,
    ),
    "parameter_server": Strategy(
        "asynchronous workers that share variables on parameter servers",
        workers=(0, 1, None),
        ps=(1, 1, None),
        keys=("partition_bytes", "max_workers"),
        averages=True,
    ),
    "parameter_server_sync": Strategy(
        "workers whose gradients are averaged on parameter servers, each step together",
        workers=(0, 1, None),
        ps=(1, 1, None),
        synchronous=True,
        keys=("partition_bytes", "backup_workers"),
        averages=True,
    ),
    "parameter_server_strategy": Strategy(
        "asynchronous workers under tf.distribute's parameter server strategy",
        workers=(1, 1, None),
        ps=(1, 1, None),
        replicas=(1, 1, None),
        keys=("max_workers", "replicas", "devices"),
        classes=("ParameterServerStrategy",),
    ),
}

# The keys of the section `cluster` that only some strategies look at, and which.
OWNERS: Mapping[str, tuple[str, ...]] = {
    key: tuple(name for name, one in STRATEGIES.items() if key in one.keys)
    for strategy in STRATEGIES.values()
    for key in strategy.keys
}
