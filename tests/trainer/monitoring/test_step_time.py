"""How the moments of a step are shared out, on traces made by hand and on a real one."""

from __future__ import annotations

import pytest
import tensorflow as tf

from trainer.monitoring import step_time

WORKER, SERVER = "/job:worker/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"


def trace(*ops):
    """Builds the trace of ops given as (type, begin, end) in milliseconds, or (device, ...)."""
    stats = tf.compat.v1.RunMetadata().step_stats
    for op in ops:
        device, (kind, begin, end) = (op[0], op[1:]) if len(op) == 4 else (WORKER, op)
        node = stats.dev_stats.add(device=device).node_stats.add(node_name="n")
        node.all_start_micros = 10**15 + begin * 1000
        node.all_end_rel_micros = (end - begin) * 1000
        node.timeline_label = f"n = {kind}(a, b)"
    return stats


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ([("IteratorGetNext", 0, 3), ("MatMul", 3, 8)], {"input": 3, "compute": 5, "other": 2}),
        ([("MatMul", 0, 4), ("MatMul", 2, 6)], {"compute": 6, "other": 4}),
        # What is hidden behind computation costs nothing.
        ([("RecvTensor", 0, 5), ("MatMul", 1, 4)], {"compute": 3, "exchange": 2, "other": 5}),
        ([("_Recv", 0, 5), ("IteratorGetNext", 0, 10)], {"exchange": 5, "input": 5}),
        ([("CollectiveReduceV2", 2, 10)], {"exchange": 8, "other": 2}),
        ([("QueueDequeueV2", 2, 10)], {"exchange": 8, "other": 2}),
        ([(SERVER, "ResourceApplyAdam", 0, 4)], {"exchange": 4, "other": 6}),
        ([("PartitionedCall", 0, 9), ("NoOp", 0, 9)], {"other": 10}),
        ([("IfElse", 0, 0)], {"other": 10}),
        ([], {"other": 10}),
    ],
)
def test_each_moment_counts_once(ops, expected):
    found = step_time.split(trace(*ops), 0.010).seconds
    assert set(found) == {"compute", "exchange", "input", "other"}
    for kind, seconds in found.items():
        assert seconds == pytest.approx(expected.get(kind, 0) / 1000, abs=1e-5), kind


def test_input_behind_which_something_runs_is_hidden():
    ops = [("IteratorGetNext", 0, 6), ("PyFunc", 0, 2), ("RecvTensor", 1, 3), ("MatMul", 6, 8)]
    found = step_time.split(trace(*ops), 0.010)
    assert found.hidden == pytest.approx(0.003, abs=1e-5)
    assert found.seconds["input"] == pytest.approx(0.003, abs=1e-5)


def test_a_trace_longer_than_the_step_leaves_nothing_over():
    assert step_time.split(trace(("MatMul", 0, 20)), 0.010).seconds["other"] == 0


def test_a_real_trace_has_the_input_it_waited_for_and_the_computation():
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        slow = tf.data.Dataset.range(3).map(
            lambda x: tf.numpy_function(_sleep, [x], tf.int64, stateful=True)
        )
        options = tf.data.Options()
        options.autotune.enabled = False
        options.experimental_optimization.inject_prefetch = False  # else there is no wait
        number = v1.data.make_one_shot_iterator(slow.with_options(options)).get_next()
        # Nothing can be computed before the input is there.
        matrix = tf.random.stateless_uniform([600, 600], tf.stack([number, number]))
        result = tf.linalg.matmul(matrix, matrix)
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        for _ in range(2):
            metadata = v1.RunMetadata()
            session.run(result, options=options, run_metadata=metadata)
    found = step_time.split(metadata.step_stats, 10.0).seconds
    assert 0.05 < found["input"] < 5
    assert 0.0005 < found["compute"] < 5
    assert found["exchange"] == 0


def _sleep(value):
    import time

    time.sleep(0.06)
    return value
