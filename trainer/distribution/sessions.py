"""Session settings of each role, in one place."""

from __future__ import annotations

import os

import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology

_CPU_FLAG = "--tf_xla_cpu_global_jit"


def session_config(
    task: topology.Task, cpu_devices: int = 1, train: config.Train | None = None
) -> tf.compat.v1.ConfigProto:
    """Returns the session settings of a process.

    Any settings given to `RunConfig` replace its own, device filters included; without filters a
    session waits for every process of the cluster, so one dead worker hangs all
    (docs/tensorflow-pitfalls.md#device-filters).
    """
    settings = tf.compat.v1.ConfigProto(
        allow_soft_placement=True, device_count={"CPU": cpu_devices}
    )
    # One pass of the graph optimizer; more costs start-up and brings nothing between graphs.
    rewrite = settings.graph_options.rewrite_options
    rewrite.meta_optimizer_iterations = rewrite.ONE
    if train is not None and train.xla:
        _compile(settings)
    if train is not None and train.precision == "bfloat16":
        rewrite.auto_mixed_precision_onednn_bfloat16 = rewrite.ON
    # Without parameter servers every process does need every other: no filters.
    if topology.PS in task.cluster and task.job_name in topology.TRAINING_ROLES:
        own = f"/job:{task.job_name}/task:{task.task_index}"
        settings.device_filters.extend(["/job:ps", own])
    return settings


def _compile(settings: tf.compat.v1.ConfigProto) -> None:
    """Lets XLA compile what it can. On CPUs it does only if this flag, which is read when the first
    graph is optimized, asks for it."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if _CPU_FLAG not in flags:
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_CPU_FLAG}".strip()
    settings.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
