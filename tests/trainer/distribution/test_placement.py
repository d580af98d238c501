"""Variables on parameter servers: by size, large ones cut, and every process alike."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.cluster import topology
from trainer.distribution import placement


def _task(servers, job_name="worker"):
    cluster = {
        "chief": ("h:1",),
        "worker": ("h:2",),
        "ps": tuple(f"h:{3 + n}" for n in range(servers)),
    }
    return topology.Task(job_name, 0, cluster)


def _variable(name, *shape, dtype=tf.float32, partitioner=None):
    return tf.compat.v1.get_variable(
        name,
        shape,
        dtype,
        tf.compat.v1.zeros_initializer(dtype),
        use_resource=True,
        partitioner=partitioner,
    )


def _server(variable):
    """Returns the task index of the server that holds a variable."""
    device = tf.DeviceSpec.from_string(variable.device)
    assert device.job == "ps"
    return device.task


def test_each_goes_where_there_is_the_least_and_not_in_turn():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(2))):
        placed = [
            _variable(name, size) for name, size in zip("abcde", (100, 10, 10, 10, 80), strict=True)
        ]
        # In turn, `a`, `c` and `e` would share a server: 190 of the 210 values.
        assert [_server(v) for v in placed] == [0, 1, 1, 1, 1]


def test_one_that_is_asked_for_is_taken_and_counted_there():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(2))):
        with tf.device("/job:ps/task:0"):
            assert [_server(_variable(name, 10)) for name in "ab"] == [0, 0]
        assert [_server(_variable(name, 10)) for name in "cd"] == [1, 1]


def test_the_size_is_that_in_bytes():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(2))):
        _variable("wide", 10, dtype=tf.float64)
        assert _server(_variable("narrow", 15)) == 1
        assert _server(_variable("next", 1)) == 1  # 60 bytes there, 80 here
        assert _server(_variable("last", 10)) == 1


def test_tables_go_where_the_fewest_rows_are_asked_for():
    """Rows of a linear model are four bytes each, and asked for as often as wide ones."""
    with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(2))):
        for number in range(10):
            _variable(f"deep{number}", 2000, 64)
            _variable(f"wide{number}", 2000, 1)
            _variable(f"layer{number}/kernel", 64, 64)
        servers = {v.op.name: _server(v) for v in tf.compat.v1.global_variables()}
    tables = [server for name, server in servers.items() if not name.endswith("kernel")]
    assert sum(tables) == 10
    assert 3 <= sum(server for name, server in servers.items() if "kernel" in name) <= 7


@pytest.mark.parametrize("servers", [2, 3, 4])
def test_the_ranking_job_asks_of_each_server_at_most_a_fifth_more_than_the_mean(servers):
    """Variables of the sizes and in the order of the shipped job, with the cluster.partition_bytes
    of its head: the first layer is about half of the bytes of a step, and would be on one server.
    """
    rows = [8, 12, 20, 40, 90, 150, 300, 500, 1000, 1500, 2000, 3000, 5000] * 2
    device = placement.device_fn(_task(servers))
    with (
        tf.Graph().as_default(),
        tf.compat.v1.device(device),
        placement.cut(servers, 65536),
    ):
        for number, count in enumerate([*rows, 3000, 2000]):
            _variable(f"deep{number}", count, 16 if count > 500 else 8)
        for number, (given, made) in enumerate([(278, 128), (128, 64), (64, 1)]):
            _variable(f"layer{number}/kernel", given, made)
            _variable(f"layer{number}/bias", made)
        for number, count in enumerate([*rows, 3000, 2000]):
            _variable(f"wide{number}", count, 1)
        asked = np.zeros([servers, 2])
        for variable in tf.compat.v1.global_variables():
            asked[_server(variable)] += placement.asked_of(variable.handle.op)
    assert (asked.max(axis=0) <= 1.2 * asked.mean(axis=0)).all()


def test_variables_that_a_partitioner_leaves_whole_are_not_all_on_the_first_server():
    """TensorFlow calls such a one `part_0`."""
    whole = placement.partitioner(2, largest=1 << 30)
    with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(2))):
        made = [_variable(f"v{number}", 2000, 4, partitioner=whole) for number in range(4)]
        assert sorted(_server(next(iter(v))) for v in made) == [0, 0, 1, 1]


def test_every_process_chooses_alike():
    found = []
    for role in ("chief", "worker"):
        with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(3, role))):
            found.append([_server(_variable(f"v{n}", 7 * n % 5 + 1)) for n in range(20)])
    assert found[0] == found[1]
    assert set(found[0]) == {0, 1, 2}


def test_what_computes_stays_with_the_worker():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(2))):
        product = tf.square(_variable("v", 3))
    assert "/job:worker/task:0" in product.device


@pytest.mark.parametrize("task", [_task(1), _task(2, "ps"), topology.Task("chief", 0)])
def test_with_one_server_or_none_tensorflow_places(task):
    assert placement.device_fn(task) is None


def test_large_variables_are_cut_over_all_servers_along_the_first_axis():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.device_fn(_task(3))):
        cut = placement.partitioner(3, largest=1000)
        parts = list(_variable("large", 100, 4, partitioner=cut))
        assert [tuple(part.shape) for part in parts] == [(34, 4), (33, 4), (33, 4)]
        assert sorted(_server(part) for part in parts) == [0, 1, 2]


@pytest.mark.parametrize(
    ("shape", "parts"),
    [((250,), 1), ((251,), 3), ((2, 1000), 2), ((1, 1000), 1)],
)
def test_only_those_over_the_limit_are_cut_and_never_into_more_than_there_are_rows(shape, parts):
    cut = placement.partitioner(3, largest=1000)
    assert cut(tf.TensorShape(shape), tf.float32) == [parts, *[1] * (len(shape) - 1)]
