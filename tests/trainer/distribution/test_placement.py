"""Variables on parameter servers: by size, large ones cut, and every process alike."""

from __future__ import annotations

import itertools

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
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(2))):
        placed = [
            _variable(name, size) for name, size in zip("abcde", (100, 10, 10, 10, 80), strict=True)
        ]
        # In turn, `a`, `c` and `e` would share a server: 190 of the 210 values.
        assert [_server(v) for v in placed] == [0, 1, 1, 1, 1]


def test_one_that_is_asked_for_is_taken_and_counted_there():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(2))):
        with tf.device("/job:ps/task:0"):
            assert [_server(_variable(name, 10)) for name in "ab"] == [0, 0]
        assert [_server(_variable(name, 10)) for name in "cd"] == [1, 1]


def test_the_size_is_that_in_bytes():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(2))):
        _variable("wide", 10, dtype=tf.float64)
        assert _server(_variable("narrow", 15)) == 1
        assert _server(_variable("next", 1)) == 1  # 60 bytes there, 80 here
        assert _server(_variable("last", 10)) == 1


def test_tables_go_where_the_fewest_rows_are_asked_for():
    """Rows of a linear model are four bytes each, and asked for as often as wide ones."""
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(2))):
        for number in range(10):
            _variable(f"deep{number}", 2000, 64)
            _variable(f"wide{number}", 2000, 1)
            _variable(f"layer{number}/kernel", 64, 64)
        servers = {v.op.name: _server(v) for v in tf.compat.v1.global_variables()}
    tables = [server for name, server in servers.items() if not name.endswith("kernel")]
    assert sum(tables) == 10
    assert 3 <= sum(server for name, server in servers.items() if "kernel" in name) <= 7


_IDS = [8, 12, 20, 40, 90, 150, 300, 500, 1000, 1500, 2000, 3000, 5000] * 2


def _tables(scope, *, width):
    for number, rows in enumerate([*_IDS, 3000, 2000]):
        _variable(f"{scope}{number}", rows, width or (16 if rows > 500 else 8))


def _layers(scope, *widths):
    for number, (given, made) in enumerate(itertools.pairwise(widths)):
        _variable(f"{scope}{number}/kernel", given, made)
        _variable(f"{scope}{number}/bias", made)


def _wide_and_deep(*units):
    _tables("deep", width=0)
    _layers("layer", 278, *units, 1)
    _tables("wide", width=1)


def _mmoe():
    _tables("deep", width=0)
    for number in range(4):
        _layers(f"expert{number}/layer", 278, 256, 128)
        _variable(f"gate{number}/kernel", 278, 4)
    for number in range(2):
        _layers(f"tower{number}/layer", 128, 64, 1)


def _deepfm():
    _tables("wide", width=1)
    _tables("deep", width=10)
    _layers("layer", 293, 400, 400, 1)


_MODELS = {
    "the shipped ranking job": lambda: _wide_and_deep(128, 64),
    "a large network": lambda: _wide_and_deep(1024, 512, 256),
    "mmoe": _mmoe,
    "deepfm": _deepfm,
    "numbers only": lambda: _layers("layer", 40, 200, 100, 1),
    "images": lambda: _layers("layer", 784, 512, 512, 10),
    "one table": lambda: _variable("table", 3000, 16),
}


_OF_TABLES = ("the shipped ranking job", "a large network", "mmoe", "deepfm")


@pytest.mark.parametrize("servers", [2, 3, 4])
@pytest.mark.parametrize("model", _MODELS)
def test_each_server_is_asked_for_at_most_a_fifth_more_than_the_mean(model, servers):
    """Variables of the sizes and in the order of shipped models, without cluster.partition_bytes:
    the first layer of the ranking job is about half of the bytes of a step, and would be on one
    server."""
    asked = np.zeros([servers, 2])
    rows = dict(enumerate([*_IDS, 3000, 2000])) if model in _OF_TABLES else {}
    tables = placement.Tables.of({f"deep{n}": ids for n, ids in rows.items()}, ())
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(servers))):
        with placement.cut(servers, tables=tables):
            _MODELS[model]()
        for variable in tf.compat.v1.global_variables():
            name = variable.op.name.partition("/part_")[0]
            asked[_server(variable)] += placement.estimate_load(
                name, variable.shape, variable.dtype
            )
    assert (asked.max(axis=0) <= 1.2 * asked.mean(axis=0)).all()


def test_variables_that_a_partitioner_leaves_whole_are_not_all_on_the_first_server():
    """TensorFlow calls such a one `part_0`."""
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(2))):
        whole = tf.compat.v1.fixed_size_partitioner(1)
        made = [_variable(f"v{number}", 2000, 4, partitioner=whole) for number in range(4)]
        assert sorted(_server(next(iter(v))) for v in made) == [0, 0, 1, 1]


def test_every_process_chooses_alike():
    found = []
    for role in ("chief", "worker"):
        with (
            tf.Graph().as_default(),
            tf.compat.v1.device(placement.build_device_fn(_task(3, role))),
        ):
            found.append([_server(_variable(f"v{n}", 7 * n % 5 + 1)) for n in range(20)])
    assert found[0] == found[1]
    assert set(found[0]) == {0, 1, 2}


def test_what_computes_stays_with_the_worker():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(2))):
        product = tf.square(_variable("v", 3))
    assert "/job:worker/task:0" in product.device


@pytest.mark.parametrize("task", [_task(1), _task(2, "ps"), topology.Task("chief", 0)])
def test_with_one_server_or_none_tensorflow_places(task):
    assert placement.build_device_fn(task) is None


def test_large_variables_are_cut_over_all_servers_along_the_first_axis():
    with tf.Graph().as_default(), tf.compat.v1.device(placement.build_device_fn(_task(3))):
        with placement.cut(3, largest=1000):
            parts = list(_variable("large", 100, 4))
        assert [tuple(part.shape) for part in parts] == [(34, 4), (33, 4), (33, 4)]
        assert sorted(_server(part) for part in parts) == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "shape", "parts"),
    [
        ("v", (250,), [1]),
        ("v", (251,), [3]),
        ("table", (2, 1000), [2, 1]),
        ("table", (1, 1000), [1, 1]),
        ("dense/kernel", (2, 1000), [1, 3]),
        ("dense/kernel", (100, 100), [3, 1]),
        ("conv2d/kernel", (5, 5, 32, 64), [1, 1, 1, 3]),
        ("scalar", (), []),
    ],
)
def test_only_those_over_the_limit_are_cut_and_tables_by_rows(name, shape, parts):
    cuts = placement.Cuts(3, largest=1000)
    assert cuts.count_parts(name, tf.TensorShape(shape), tf.float32) == parts


def test_without_a_limit_what_is_cut_depends_on_what_was_made_before():
    cuts = placement.Cuts(2, largest=None)

    def is_cut(name, *shape):
        return max(cuts.count_parts(name, tf.TensorShape(shape), tf.float32)) == 2

    assert not is_cut("tiny/kernel", 30, 30)
    assert is_cut("first/kernel", 500, 500)
    assert not is_cut("small/kernel", 100, 120)
    assert is_cut("second/kernel", 100, 150)
    assert is_cut("table", 100, 1)  # all rows, so far
    assert is_cut("other", 100, 1)
    assert not is_cut("rare", 10, 1)
    assert is_cut("huge", 600_000, 2)


def test_tables_are_cut_if_they_are_few_or_of_lists():
    ids = {"a": 3000, "b": 3000, "tags": 800, "c": 20}

    def cut(tables):
        cuts = placement.Cuts(2, None, tables)
        shapes = {scope: tf.TensorShape([count, 8]) for scope, count in ids.items()}
        parts = {s: cuts.count_parts(f"x/{s}/weights", shapes[s], tf.float32) for s in ids}
        return [scope for scope, of in parts.items() if max(of) == 2]

    many = {str(n): 3000 for n in range(20)}
    assert cut(placement.Tables.of(ids, ())) == ["a", "b", "tags"]
    assert cut(placement.Tables.of({**ids, **many}, ())) == []
    assert cut(placement.Tables.of({**ids, **many}, ["tags"])) == ["tags"]


def test_a_variable_that_is_taken_again_is_cut_as_it_was():
    v1 = tf.compat.v1
    scope = v1.variable_scope("shared", reuse=v1.AUTO_REUSE)
    with tf.Graph().as_default(), placement.cut(2), scope:
        first = v1.get_variable("kernel", [100, 30])
        v1.get_variable("large/kernel", [1000, 1000])
        assert list(v1.get_variable("kernel", [100, 30])) == list(first)
    assert len(list(first)) == 2


@pytest.mark.parametrize("kind", ["GlorotUniform", "HeNormal", "LecunUniform", "RandomNormal"])
@pytest.mark.parametrize("shape", [(300, 100), (100, 300)])
def test_parts_of_a_kernel_begin_as_the_whole_would(kind, shape):
    """Keras draws by the shape that it is asked for, and the same for each."""
    v1, spread = tf.compat.v1, []
    for servers in (1, 2):
        with tf.Graph().as_default(), v1.Session() as session, placement.cut(servers):
            initializer = getattr(tf.keras.initializers, kind)(seed=1)
            kernel = v1.get_variable("kernel", shape, initializer=initializer)
            parts = list(kernel) if servers > 1 else [kernel]
            session.run(v1.global_variables_initializer())
            values = session.run(parts)
        assert len(values) == servers
        assert len({float(part.flat[0]) for part in values}) == servers
        spread.append(np.concatenate([part.flatten() for part in values]).std())
    assert spread[1] == pytest.approx(spread[0], rel=0.03)


def test_what_is_orthogonal_stays_so():
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session, placement.cut(2):
        kernel = v1.get_variable("kernel", [64, 64], initializer=v1.orthogonal_initializer())
        session.run(v1.global_variables_initializer())
        value = session.run(tf.convert_to_tensor(kernel))
    np.testing.assert_allclose(value @ value.T, np.eye(64), atol=1e-5)
