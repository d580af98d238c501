"""Tensors that travel together between real servers: fewer sends, and the same training."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.cluster import topology
from tests.support import servers
from trainer import optimizers
from trainer.distribution import packed_edges, placement
from trainer.features import embedding

v1 = tf.compat.v1
TABLES, ROWS, WIDTH = 6, 50, 4


@pytest.fixture(scope="module")
def cluster():
    """Starts a chief and two parameter servers; returns their addresses and the chief's."""
    return servers.start({"chief": 1, "ps": 2})


def _model(ids):
    """Tables of ids, a layer of numbers and their shape, a loop and branches of both kinds."""
    found = []
    for number in range(TABLES):
        table = v1.get_variable(f"table_{number}", [ROWS, WIDTH], use_resource=True)
        mine = ids[:, number]
        found.append(embedding.look_up_one(table, mine, tf.range(tf.size(mine))))
    x = tf.concat(found, axis=1)
    for number in range(3):
        kernel = v1.get_variable(f"kernel_{number}", [TABLES * WIDTH] * 2, use_resource=True)
        bias = v1.get_variable(f"bias_{number}", [TABLES * WIDTH], use_resource=True)
        x = tf.tanh(tf.matmul(x, kernel) + bias)
    share = v1.get_variable("share", [], use_resource=True)
    whole = v1.get_variable(
        "whole", [], tf.int32, v1.constant_initializer(3), trainable=False, use_resource=True
    )
    x += tf.cond(share > 0, lambda: share, lambda: -share)
    _, x = tf.while_loop(lambda i, _: i < whole, lambda i, x: (i + 1, x * 1.5), [0, x])
    return tf.reduce_sum(x**2)


def _built(spec):
    """Returns ids to feed, the loss and the train op."""
    task = topology.Task("chief", 0, spec)
    with v1.device(placement.build_device_fn(task)):
        v1.set_random_seed(3)
        ids = v1.placeholder(tf.int64, [None, TABLES])
        loss = _model(ids)
        return ids, loss, optimizers.train_op(loss, optimizers.Updates("adam", 0.1))


def _trained(cluster, *, pack):
    """Returns the loss of some steps, all variables, and how many tensors a step sends."""
    spec, target, _ = cluster
    rng = np.random.default_rng(1)
    batches = [rng.integers(0, ROWS, (size, TABLES)) for size in (20, 7, 0, 20)]
    with tf.Graph().as_default():
        ids, loss, train_op = _built(spec)
        first = v1.global_variables_initializer()
        if pack:
            packed_edges.read_step_plainly()
            assert packed_edges.pack(train_op) > 20
        with v1.Session(target) as session:
            session.run(first)
            losses = [session.run([loss, train_op], {ids: one})[0] for one in batches]
            values = session.run({v.op.name: v for v in v1.global_variables()})
            return losses, values, _sends(session, train_op, {ids: batches[0]})


def _sends(session, train_op, given):
    """Returns how many tensors go from one process to another in a step."""
    full = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = v1.RunMetadata()
    session.run(train_op, given, options=full, run_metadata=metadata)
    return sum(node.op == "_Recv" for of in metadata.partition_graphs for node in of.node)


def test_training_is_the_same_with_fewer_sends(cluster):
    plain, packed = (_trained(cluster, pack=pack) for pack in (False, True))
    np.testing.assert_allclose(packed[0], plain[0], rtol=1e-5)
    assert packed[1].keys() == plain[1].keys()
    for variable, value in plain[1].items():
        np.testing.assert_allclose(packed[1][variable], value, 1e-4, 1e-5, err_msg=variable)
    assert packed[2] < 0.7 * plain[2], (packed[2], plain[2])


def test_graphs_with_branches_of_tensorflow_1_are_left_alone(cluster):
    """What a branch that is not taken returns is dead, and so would all be that travels with it."""
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            _, _, train_op = _built(cluster[0])
            before = graph.as_graph_def()
            assert packed_edges.pack(train_op) == 0
            assert graph.as_graph_def() == before
    finally:
        v1.enable_control_flow_v2()


def test_large_tensors_are_sent_by_themselves():
    with tf.Graph().as_default():
        with v1.device("/job:ps/task:0"):
            read = [tf.random.normal([size]) for size in (10, 20, 30, 1 << 16, 40)]
        with v1.device("/job:worker/task:0"):
            used = [tf.square(x) for x in read]
        assert packed_edges.pack(tf.group(*used)) == 3
        alone = [x.op.inputs[0] is y for x, y in zip(used, read, strict=True)]
        assert alone == [False, False, False, True, False]
