"""Session settings of each role, in one place."""

from __future__ import annotations

import tensorflow as tf

from pipeline import topology


def session_config(task: topology.Task, cpu_devices: int = 1) -> tf.compat.v1.ConfigProto:
    """Returns the session settings of a process.

    Any settings given to `RunConfig` replace its own, device filters included; without filters a
    session waits for every process of the cluster, so one dead worker hangs all (traps A2).
    """
    settings = tf.compat.v1.ConfigProto(
        allow_soft_placement=True, device_count={"CPU": cpu_devices}
    )
    # One pass of the graph optimizer; more costs start-up and brings nothing between graphs.
    rewrite = settings.graph_options.rewrite_options
    rewrite.meta_optimizer_iterations = rewrite.ONE
    # Without parameter servers every process does need every other: no filters.
    if topology.PS in task.cluster and task.job_name in topology.TRAINING_ROLES:
        own = f"/job:{task.job_name}/task:{task.task_index}"
        settings.device_filters.extend(["/job:ps", own])
    return settings
