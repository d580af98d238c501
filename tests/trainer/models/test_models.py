"""Which models there are, and that they are what their names say."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs.run_folder import RunFolder
from tests.trainer import user_code
from trainer import experiment, models, optimizers
from trainer.heads import heads
from trainer.models import mnist_cnn, mnist_mlp

ModeKeys = tf.estimator.ModeKeys
UPDATES = optimizers.Updates("sgd", 0.1)


def test_registered_names():
    assert models.find("mnist_cnn") is mnist_cnn.model_fn
    assert models.find("mnist_mlp") is mnist_mlp.model_fn


@pytest.mark.parametrize("name", models.MODELS)
def test_every_name_is_a_module_with_a_model_and_its_keras_network(name):
    assert models.find(name).__module__ == f"trainer.models.{name}"
    assert callable(models.load_module(name).network)


def test_a_dotted_path_of_the_users_own():
    assert models.find("tests.trainer.user_code:model_fn") is user_code.model_fn


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "package.module:model_fn",
            "stands for a model, as make schema found no column that makes a feature; write",
        ),
        ("absent_package.models:model_fn", "no module 'absent_package'; is its folder on PYTHONP"),
        ("tests.trainer.absent:model_fn", "no module 'tests.trainer.absent'"),
        (
            "tests.trainer.user_code:model_fm",
            r"tests.trainer.user_code has no 'model_fm' \(did you mean 'model_fn'\?\)",
        ),
        ("tests.trainer.user_code:not_a_model", "is 3, which cannot be called"),
    ],
)
def test_what_cannot_be_found_is_explained(name, message):
    with pytest.raises(errors.UsageError, match=message):
        models.find(name)


def test_the_key_it_came_from_is_named():
    with pytest.raises(errors.UsageError, match=r"^train\.hooks 'absent:Hook': no module 'absent'"):
        models.load_attribute("absent:Hook", "train.hooks")


@pytest.mark.parametrize("hook", ["absent", "absent:", ":Hook"])
def test_a_key_without_module_or_attribute_is_refused(hook):
    with pytest.raises(errors.UsageError, match=r"must be package\.module:attribute"):
        models.load_attribute(hook, "train.hooks")


def _build(model_fn, mode, classes=10):
    """Returns the spec and the shapes of the variables, with MNIST's features."""
    with tf.Graph().as_default() as graph:
        features = {"image": tf.compat.v1.placeholder(tf.uint8, [None, 28, 28, 1])}
        labels = None
        if mode != ModeKeys.PREDICT:
            labels = tf.compat.v1.placeholder(tf.int64, [None])
        spec = model_fn(features, labels, mode, {"classes": classes, "optimizer": UPDATES})
        shapes = {v.op.name: v.shape.as_list() for v in tf.compat.v1.trainable_variables()}
        summaries = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
        return spec, shapes, {s.op.name for s in summaries}, graph


def test_the_cnn_has_these_variables():
    _, shapes, _, _ = _build(mnist_cnn.model_fn, ModeKeys.TRAIN)
    assert shapes == {
        "conv2d/kernel": [5, 5, 1, 32],
        "conv2d/bias": [32],
        "conv2d_1/kernel": [5, 5, 32, 64],
        "conv2d_1/bias": [64],
        "dense/kernel": [3136, 1024],
        "dense/bias": [1024],
        "dense_1/kernel": [1024, 10],
        "dense_1/bias": [10],
    }


def test_the_mlp_has_these_variables():
    _, shapes, _, graph = _build(mnist_mlp.model_fn, ModeKeys.TRAIN)
    assert shapes == {
        "dense/kernel": [784, 100],
        "dense/bias": [100],
        "dense_1/kernel": [100, 10],
        "dense_1/bias": [10],
    }
    assert [op.type for op in graph.get_operations() if op.name == "dense/Sigmoid"] == ["Sigmoid"]


@pytest.mark.parametrize("model", [mnist_cnn, mnist_mlp])
@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT])
def test_modes_share_their_variables(model, mode):
    assert _build(model.model_fn, mode)[1] == _build(model.model_fn, ModeKeys.TRAIN)[1]


def test_training_summarises_accuracy_and_learning_rate():
    _, _, summaries, _ = _build(mnist_mlp.model_fn, ModeKeys.TRAIN)
    assert {"accuracy", "learning_rate"} <= summaries


@pytest.mark.parametrize("classes", [2, 10])
def test_serving_returns_class_and_probabilities(classes):
    """Of two classes too, for which tf.estimator has a head with a single logit."""
    spec, _, _, _ = _build(mnist_mlp.model_fn, ModeKeys.PREDICT, classes)
    answer = spec.export_outputs["serving_default"].outputs
    assert {name: (t.dtype, t.shape.as_list()) for name, t in answer.items()} == {
        "class": (tf.int64, [None]),
        "probabilities": (tf.float32, [None, classes]),
    }


@pytest.mark.parametrize("name", ["mnist_cnn", "mnist_mlp"])
def test_without_params_a_model_has_the_defaults_of_the_config(
    small_records, transforms, tmp_path, name
):
    job = small_records.config(f"model={{name: {name}}}")
    task = topology.Task(topology.CHIEF, 0)
    built = experiment.build_estimator(job, RunFolder(str(tmp_path)), task, transforms=transforms)
    with tf.Graph().as_default():
        features = {"image": tf.compat.v1.placeholder(tf.uint8, [None, 28, 28, 1])}
        spec = built.model_fn(features, None, ModeKeys.PREDICT, built.config)
    assert spec.predictions["probabilities"].shape.as_list() == [None, 10]


def test_evaluation_knows_accuracy_and_loss():
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        logits = tf.constant([[0.0, 4.0, 0.0], [4.0, 0.0, 0.0]])
        labels = tf.constant([1, 2], tf.int64)
        params = {"classes": 3, "optimizer": UPDATES}
        spec = heads.build_estimator_spec(logits, {}, labels, mode=ModeKeys.EVAL, params=params)
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        session.run([update for _, update in spec.eval_metric_ops.values()])
        assert session.run(spec.eval_metric_ops["accuracy"][0]) == 0.5
