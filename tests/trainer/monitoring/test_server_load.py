"""What real parameter servers are asked for, against the ids of the step."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.cluster import topology
from tests.support import servers
from trainer import optimizers
from trainer.distribution import placement
from trainer.monitoring import server_load
from trainer.monitoring.server_load import Load, ServerLoads

v1 = tf.compat.v1
ROWS, WIDTH, SERVERS = 20_000, 16, 4


@pytest.fixture(scope="module")
def cluster():
    """Starts a chief and four parameter servers; returns their addresses and the chief's."""
    return servers.start({"chief": 1, "ps": SERVERS})


def _traces(cluster, batches, lookup, balance=True):
    """Trains a table on batches of ids; returns the traces, and the part of each row."""
    spec, target, _ = cluster
    task = topology.Task("chief", 0, spec)
    with tf.Graph().as_default(), v1.device(placement.build_device_fn(task)):
        with placement.cut(SERVERS, 1000):
            if balance:
                table = v1.get_variable("table", [ROWS, WIDTH])
            else:
                table = v1.get_variable(
                    "table", [ROWS, WIDTH], initializer=lambda shape, dtype, **_: tf.zeros(shape)
                )
            ids = v1.placeholder(tf.int64, [None])
            loss = tf.reduce_sum(lookup(table, ids) ** 2)
            update = optimizers.train_op(loss, optimizers.Updates("adam", 0.1))
        traces = []
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            for batch in batches:
                full = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
                metadata = v1.RunMetadata()
                session.run(update, {ids: batch}, options=full, run_metadata=metadata)
                traces.append(metadata.step_stats)
    return traces, table


def _zipf(count, batch=2000, exponent=1.1):
    rng = np.random.default_rng(1)
    chances = np.arange(1, ROWS + 1.0) ** -exponent
    drawn = rng.choice(ROWS, (count, batch), p=chances / chances.sum())
    return [np.unique(one) for one in drawn]


def _sparse(table, ids):
    places = tf.stack([ids * 0, tf.range(tf.size(ids, tf.int64))], axis=1)
    sparse = tf.SparseTensor(places, ids, [1, tf.size(ids, tf.int64)])
    return tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="sum")


@pytest.mark.parametrize("lookup", [tf.nn.embedding_lookup, _sparse])
def test_rows_are_those_of_the_ids_and_each_server_has_its_share(cluster, lookup):
    batches = _zipf(5)
    traces, table = _traces(cluster, batches, lookup)
    loads, total = ServerLoads(), np.zeros(SERVERS)
    offsets = np.cumsum(table.layout.sizes)
    for trace, ids in zip(traces, batches, strict=True):
        found = server_load.sum_by_server(trace)
        places = table.layout.find_places(tf.constant(ids)).numpy()
        wanted = np.bincount(np.searchsorted(offsets, places, side="right"), minlength=SERVERS)
        assert [found[server].rows for server in range(SERVERS)] == wanted.tolist()
        for server, rows in enumerate(wanted):
            # Vectors; of servers in one process, traces may lack gradients and ids.
            vectors = rows * WIDTH * 4
            assert vectors <= found[server].bytes <= 2 * vectors + rows * 8 + 1000
        loads.add(trace)
        total += wanted
    assert total.max() <= 1.2 * total.mean()
    assert [load.rows for load in loads.per_step] == (total / len(batches)).tolist()
    assert loads.describe_imbalance() is None


def test_tensors_of_megabytes_are_counted(cluster):
    """Their labels begin with MB, which those of smaller ones do not."""
    spec, target, _ = cluster
    device = placement.build_device_fn(topology.Task("chief", 0, spec))
    with tf.Graph().as_default(), v1.device(device):
        kernel = v1.get_variable("kernel", [500, 500])
        loss = tf.reduce_sum(tf.matmul(tf.ones([4, 500]), kernel) ** 2)
        update = optimizers.train_op(loss, optimizers.Updates("sgd", 1e-9))
    full, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    with v1.Session(target, graph=kernel.graph) as session:
        session.run(v1.variables_initializer([kernel, *v1.global_variables(scope="global_step")]))
        session.run([update, loss], options=full, run_metadata=metadata)
    [load] = [
        load for load in server_load.sum_by_server(metadata.step_stats).values() if load.bytes
    ]
    assert load.pulled == 500 * 500 * 4
    # Of servers in one process, traces may lack the gradient.
    assert load.pulled <= load.bytes <= 2 * load.pulled + 100


def test_a_trace_that_lacks_transfers_changes_no_bytes():
    loads = ServerLoads()
    for size in (1000, 8, 1000):
        loads.add(_sent(size))
    assert loads.per_step == [Load(0, 1000, 1000)]


def test_contiguous_parts_would_have_been_warned_of(cluster):
    traces, _ = _traces(cluster, _zipf(3), tf.nn.embedding_lookup, balance=False)
    loads = ServerLoads()
    for number, trace in enumerate(traces):
        assert loads.describe_imbalance() is None, number  # too few
        loads.add(trace)
    warned = loads.describe_imbalance()
    assert warned.startswith("ps-0 is asked for ")
    assert "times the mean of the servers; a small cluster.partition_bytes" in warned
    rows = [load.rows for load in loads.per_step]
    assert rows[0] > 2 * np.mean(rows)


def test_bytes_are_those_of_both_directions():
    """As servers in processes of their own have them."""
    stats = v1.RunMetadata().step_stats
    chief, ps = (f"/job:{task}/replica:0/task:0/device:CPU:0" for task in ("chief", "ps"))
    _add(stats, 64, ps, target=chief)
    _add(stats, 8, chief, target=ps)
    _add(stats, 4, ps, target=ps.replace("0/d", "1/d"))
    assert server_load.sum_by_server(stats) == {0: Load(0, 76, 68), 1: Load(0, 4)}


def _add(stats, size, source, *, target):
    node = stats.dev_stats.add(device=target).node_stats.add(node_name="RecvTensor")
    edge = f"edge_37_lookup/Gather from {source} to {target}"
    node.timeline_label = f"[{size}B] [0.498539Mb/s] {edge}"
    description = node.output.add().tensor_description.allocation_description
    description.requested_bytes = size


def _sent(size):
    """A trace in which a server sends so many bytes."""
    stats = v1.RunMetadata().step_stats
    ps, chief = (f"/job:{task}/replica:0/task:0/device:CPU:0" for task in ("ps", "chief"))
    _add(stats, size, ps, target=chief)
    return stats


def test_without_servers_there_is_nothing_to_tell():
    loads = ServerLoads()
    loads.add(v1.RunMetadata().step_stats)
    assert loads.per_step == []
    assert loads.describe_imbalance() is None
    assert server_load.build_summaries(loads.per_step) == {}


def test_what_tensorboard_gets():
    assert server_load.build_summaries([Load(3, 4), Load(5, 6)]) == {
        "servers/rows/ps-0": 3,
        "servers/bytes/ps-0": 4,
        "servers/rows/ps-1": 5,
        "servers/bytes/ps-1": 6,
    }
