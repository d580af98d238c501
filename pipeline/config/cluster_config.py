"""The `cluster:` section of a config: which processes train, and how they share the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeline.config.strategy_table import STRATEGIES
from pipeline.sections import Above0, NotNegative, Positive, Section

if TYPE_CHECKING:
    StrategyName = str
    EvaluationName = str
else:
    StrategyName = Literal[tuple(STRATEGIES)]
    EvaluationName = Literal[tuple(name for name, one in STRATEGIES.items() if one.evaluates)]


# Bytes of a variable that is cut over servers unless `partition_bytes` says otherwise.
LARGE_VARIABLE = 4 << 20


class Cluster(Section):
    """Which processes train, and how they share the work.

    [Training](training.md) compares the strategies. A key that the strategy does not use must
    keep its default; any other value is rejected.
    """

    strategy: StrategyName = "none"
    """How processes and devices train together."""
    workers: NotNegative | None = None
    """Worker processes, in addition to the chief, which trains too. Not set: 1 in strategies with
    several processes. `multi_worker_mirrored` and `parameter_server_strategy` need at least 1;
    strategies with one process allow none."""
    max_workers: Positive | None = None
    """Most workers that the run can have while it trains: the parameter servers keep a place for
    each, and `make scale` starts and ends workers without a restart of the others. Not set: as many
    as `workers`."""
    ps: NotNegative | None = None
    """Parameter server processes. Not set: 1 in strategies that use them. The other strategies
    allow none."""
    replicas: Positive | None = None
    """Copies of the model in one process: on `devices` if given, else on GPUs, else on logical
    CPUs. Not set: one per device in `devices`, or 2; in strategies with several processes one per
    GPU that the process sees."""
    devices: tuple[str, ...] = ()
    """Devices of a process such as `/cpu:0` or `/gpu:1`, each named once."""
    cross_device_ops: Literal["auto", "nccl", "hierarchical_copy", "reduction_to_one_device"] = (
        "auto"
    )
    """How gradients of several devices are added up. `auto`: TensorFlow chooses on GPUs;
    `reduction_to_one_device` on CPUs. `nccl` and `hierarchical_copy` need at least 2 GPUs."""
    communication: Literal["auto", "ring", "nccl"] = "auto"
    """How gradients of several processes are added up; `nccl` needs GPUs."""
    parameter_device: str = "/cpu:0"
    """Device that holds the variables."""
    backup_workers: NotNegative = 0
    """Number of the slowest training processes whose gradients a step does not wait for; fewer than
    there are training processes."""
    partition_bytes: Positive | None = None
    """Size in bytes above which a variable is cut over the parameter servers. Not set: 4 MiB; of
    shipped models what is [a large share](models.md#how-parameters-are-updated) of what a
    step asks of a server is cut, too. Each server gets rows of all frequencies of a table;
    checkpoints keep the order of the rows."""
    eval_strategy: EvaluationName = "none"
    """Strategy of the process that evaluates."""
    watchdog_seconds: Above0 = 120.0
    """Seconds without progress after which a process counts as lost and is started again. On
    Kubernetes, on Vertex AI and by hand, where no launcher watches, it then exits with 75."""
    watchdog_start_seconds: Above0 = 900.0
    """The same before the first step of a training process, the first batch of an evaluation, and
    in a save or an export. The first step may take as long as a process waits for the chief, if
    that is longer."""
    start_wait_seconds: Above0 = 300.0
    """Seconds for which a process that was started without the launcher waits for the chief: by
    hand, on Slurm, on Vertex AI. A place that brings machines one after another waits longer."""
    stop_seconds: Above0 = 30.0
    """Seconds that a training process has, after Ctrl-C or SIGTERM, to end its step and begin to
    save. A save that has begun is finished."""
