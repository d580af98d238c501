"""Session settings of each role."""

from __future__ import annotations

import pytest

from pipeline import topology
from trainer import sessions

WITH_PS = {"chief": ("h:1",), "worker": ("h:2", "h:3"), "ps": ("h:4",)}
WITHOUT_PS = {"chief": ("h:1",), "worker": ("h:2",)}


@pytest.mark.parametrize(
    ("role", "index", "cluster", "filters"),
    [
        ("chief", 0, WITH_PS, ["/job:ps", "/job:chief/task:0"]),
        ("worker", 0, WITH_PS, ["/job:ps", "/job:worker/task:0"]),
        ("worker", 1, WITH_PS, ["/job:ps", "/job:worker/task:1"]),
        ("ps", 0, WITH_PS, []),
        ("evaluator", 0, WITH_PS, []),
        ("chief", 0, {}, []),
        # Every process of an all-reduce needs every other.
        ("chief", 0, WITHOUT_PS, []),
        ("worker", 0, WITHOUT_PS, []),
    ],
)
def test_training_processes_wait_for_servers_and_themselves_only(role, index, cluster, filters):
    settings = sessions.session_config(topology.Task(role, index, cluster))
    assert list(settings.device_filters) == filters
    assert settings.allow_soft_placement


def test_as_many_logical_cpus_as_asked_for():
    task = topology.Task("chief", 0)
    assert sessions.session_config(task).device_count["CPU"] == 1
    assert sessions.session_config(task, 3).device_count["CPU"] == 3
