"""Session settings of each role."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf

from pipeline.cluster import topology
from trainer.distribution import sessions

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
    settings = sessions.build_session_config(topology.Task(role, index, cluster))
    assert list(settings.device_filters) == filters
    assert settings.allow_soft_placement


def test_as_many_logical_cpus_as_asked_for():
    task = topology.Task("chief", 0)
    assert sessions.build_session_config(task).device_count["CPU"] == 1
    assert sessions.build_session_config(task, 3).device_count["CPU"] == 3


def test_precision_and_compilation_by_config(small_records, monkeypatch):
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    task = topology.Task("chief", 0)
    plain = sessions.build_session_config(task, 1, small_records.job.train).graph_options
    assert plain.optimizer_options.global_jit_level == 0
    assert plain.rewrite_options.auto_mixed_precision_onednn_bfloat16 == 0
    job = small_records.config("train.xla=true", "train.precision=bfloat16")
    found = sessions.build_session_config(task, 1, job.train).graph_options
    assert found.optimizer_options.global_jit_level == tf.compat.v1.OptimizerOptions.ON_1
    assert found.rewrite_options.auto_mixed_precision_onednn_bfloat16 == found.rewrite_options.ON
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_cpu_global_jit"


def test_graphs_that_read_many_columns_are_not_optimized(small_records):
    task, train = topology.Task("chief", 0), small_records.job.train
    found = [
        sessions.build_session_config(task, 1, train, columns=n).graph_options.rewrite_options
        for n in (sessions.MANY_COLUMNS, sessions.MANY_COLUMNS + 1)
    ]
    assert [one.disable_meta_optimizer for one in found] == [False, True]
    # What computes in bfloat16 is a part of the optimizer.
    job = small_records.config("train.precision=bfloat16")
    settings = sessions.build_session_config(task, 1, job.train, columns=9999)
    assert not settings.graph_options.rewrite_options.disable_meta_optimizer
