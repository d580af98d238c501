"""Session settings of each role, in one place."""

from __future__ import annotations

import os

import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology

_CPU_FLAG = "--tf_xla_cpu_global_jit"
# Optimizing graphs that read more columns takes longer than all that it saves: seconds a session.
MANY_COLUMNS = 500


def build_session_config(
    task: topology.Task,
    cpu_devices: int = 1,
    train: config.Train | None = None,
    *,
    columns: int = 0,
) -> tf.compat.v1.ConfigProto:
    """Returns the session settings of a process, for graphs that read so many columns.

    Any settings given to `RunConfig` replace its own, device filters included; without filters a
    session waits for every process of the cluster, so one dead worker hangs all
    (docs/tensorflow-pitfalls.md#device-filters).
    """
    settings = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        device_count={"CPU": cpu_devices},
        log_device_placement=train is not None and train.log_device_placement,
    )
    # Other processes may use the same GPU.
    settings.gpu_options.allow_growth = True
    if train is not None and train.xla:
        _compile(settings)
    rewrite = settings.graph_options.rewrite_options
    bfloat16 = train is not None and train.precision == "bfloat16"
    limit_optimizer(settings, columns=0 if bfloat16 else columns)
    if bfloat16:
        rewrite.auto_mixed_precision_onednn_bfloat16 = rewrite.ON
    # Without parameter servers every process does need every other: no filters.
    if topology.PS in task.cluster and task.job_name in topology.TRAINING_ROLES:
        own = f"/job:{task.job_name}/task:{task.task_index}"
        settings.device_filters.extend(["/job:ps", own])
    return settings


def limit_optimizer(settings: tf.compat.v1.ConfigProto, *, columns: int) -> None:
    """Limits the graph optimizer to one pass, as more brings nothing, and to none for graphs that
    read many columns."""
    rewrite = settings.graph_options.rewrite_options
    rewrite.meta_optimizer_iterations = rewrite.ONE
    rewrite.disable_meta_optimizer = columns > MANY_COLUMNS


def _compile(settings: tf.compat.v1.ConfigProto) -> None:
    """Lets XLA compile what it can. On CPUs it does only if this flag, which is read when the first
    graph is optimized, asks for it."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if _CPU_FLAG not in flags:
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_CPU_FLAG}".strip()
    settings.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
