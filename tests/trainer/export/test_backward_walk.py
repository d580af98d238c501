"""The ops behind the outputs of an export: the same as TensorFlow finds, each looked at once."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.ops import op_selector

from trainer.export import backward_walk


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def _build_columns(count):
    """Returns serialized input, what it is parsed to, and an output of all columns."""
    serialized = tf.compat.v1.placeholder(tf.string, [None])
    columns = [tf.compat.v1.placeholder_with_default(serialized, [None]) for _ in range(count)]
    return serialized, columns, tf.identity(tf.stack(columns, axis=1))


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("stops", ["nothing", "the input", "the columns", "some columns"])
def test_it_finds_what_tensorflow_finds(stops):
    serialized, columns, output = _build_columns(40)
    other = output + tf.stack(columns[:1], axis=1)
    at = {
        "nothing": [],
        "the input": [serialized],
        "the columns": columns,
        "some columns": columns[::2],
    }[stops]
    found = backward_walk.find_ops_behind([output, other], at)
    wanted = op_selector.get_backward_walk_ops([output, other], stop_at_ts=at)
    assert len(found) == len(set(found))
    assert set(found) == set(wanted)


@pytest.mark.usefixtures("graph")
def test_a_loop_is_walked_through_once():
    tf.compat.v1.disable_control_flow_v2()
    try:
        start = tf.compat.v1.placeholder(tf.int32, [])
        output = tf.compat.v1.while_loop(lambda n: n < 3, lambda n: n + 1, [start])
    finally:
        tf.compat.v1.enable_control_flow_v2()
    found = backward_walk.find_ops_behind([output], [])
    assert set(found) == set(op_selector.get_backward_walk_ops([output], stop_at_ts=[]))
    assert any(op.type == "NextIteration" for op in found)


def test_an_output_that_depends_on_what_is_not_fed_is_left_out_as_ever(tmp_path):
    def model_fn(features, labels, mode):
        tf.compat.v1.train.get_or_create_global_step()
        total = features["x"] * tf.compat.v1.get_variable("w", [])
        outputs = {
            "serving_default": tf.estimator.export.PredictOutput({"y": total}),
            "other": tf.estimator.export.PredictOutput({"y": total + features["hidden"]}),
        }
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={"y": total},
            loss=tf.reduce_sum(total),
            train_op=tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1),
            export_outputs=outputs,
        )

    def receiver():
        x, hidden = (tf.compat.v1.placeholder(tf.float32, [None]) for _ in range(2))
        return tf.estimator.export.ServingInputReceiver({"x": x, "hidden": hidden}, {"x": x})

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "run"))
    estimator.train(lambda: ({"x": tf.ones([2]), "hidden": tf.ones([2])}, tf.ones([2])), steps=1)
    own = op_selector.get_backward_walk_ops
    with backward_walk.replace_tensorflow_walk():
        folder = estimator.export_saved_model(str(tmp_path / "export"), receiver)
    assert op_selector.get_backward_walk_ops is own
    assert set(tf.saved_model.load(folder.decode()).signatures) == {"serving_default"}


@pytest.mark.usefixtures("graph")
def test_each_op_is_asked_for_its_inputs_once(monkeypatch):
    _, columns, output = _build_columns(40)
    asked = []
    inputs = tf.Operation.inputs
    monkeypatch.setattr(
        tf.Operation, "inputs", property(lambda op: asked.append(op) or inputs.fget(op))
    )
    found = backward_walk.find_ops_behind([output], [])
    assert sorted(op.name for op in asked) == sorted(op.name for op in found)
    assert {column.op for column in columns} <= set(found)
