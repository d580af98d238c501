"""From logits to loss, metrics and what is served: of classes, of two, and of numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from pipeline.models.base import (
    METRICS_OF_CLASSES,
    METRICS_OF_NUMBERS,
    METRICS_OF_TWO_CLASSES,
)
from trainer import optimizers
from trainer.features.transforms import WEIGHT, name_weight
from trainer.heads import heads

v1 = tf.compat.v1
Keys = tf.estimator.ModeKeys
UPDATES = optimizers.Updates("sgd", 0.1)


def _loss(logits, labels, features=None, **params):
    with tf.Graph().as_default(), v1.Session() as session:
        spec = heads.build_estimator_spec(
            tf.constant(logits, tf.float32),
            {name: tf.constant(values, tf.float32) for name, values in (features or {}).items()},
            tf.constant(labels, tf.int64),
            mode=Keys.EVAL,
            params={"optimizer": UPDATES, **params},
        )
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        session.run([update for _, update in spec.eval_metric_ops.values()])
        metrics = {name: session.run(value) for name, (value, _) in spec.eval_metric_ops.items()}
        return metrics


def _log_loss(logit, label):
    return np.log1p(np.exp(-logit if label else logit))


def test_two_logits_and_one_are_the_same():
    two = _loss([[1.0, 3.0], [0.5, -1.0]], [1, 0], classes=2)
    one = _loss([[2.0], [-1.5]], [1, 0], classes=2)
    assert two == pytest.approx(one)
    assert one["average_loss"] == pytest.approx(
        (_log_loss(2, 1) + _log_loss(-1.5, 0)) / 2, rel=1e-5
    )
    assert "auc" in one


@pytest.mark.parametrize("key", ["probabilities", "logistic"])
def test_equal_logits_have_equal_probabilities_wherever_they_are_in_a_batch(key):
    """Softmax and sigmoid of float32 round the last rows of a batch in other ways than the rest."""
    with tf.Graph().as_default(), v1.Session() as session:
        logits = v1.placeholder(tf.float32, [None, 1])
        head = heads.build_head(2, weight=None, scaled=(0.0, 1.0))
        chances = head.predictions(logits)[key]
        for size in range(1, 70):
            for logit in (-7.3, -4.6, -3.0, -0.61, 0.4, 1.9, 4.77):
                found = session.run(chances, {logits: np.full([size, 1], logit)})
                assert len(np.unique(found, axis=0)) == 1, (size, logit)
                right = 1 / (1 + np.exp(-float(np.float32(logit))))
                both = np.float32([1 - right, right])
                np.testing.assert_array_equal(
                    found[0], both if key == "probabilities" else both[1:]
                )


@pytest.mark.parametrize("size", [15, 63])
def test_an_evaluation_ranks_no_equal_logits(size):
    """Negatives first, so that those rounded otherwise, at the end of the batch, are positive."""
    found = _loss([[-4.6]] * size, [0] * (size - 1) + [1], classes=2)
    assert (found["auc"], found["average_precision"]) == (0.5, pytest.approx(1 / size))


@pytest.mark.parametrize("features", [{}, {WEIGHT: [1.0, 1.0, 1.0, 1.0]}])
def test_precision_and_recall_have_one_area(features):
    """That of thresholds is a half for these scores, which are in perfect order."""
    found = _loss([[-9.1], [-9.0], [-8.9], [-8.8]], [0, 0, 1, 1], features, classes=2)
    assert found["average_precision"] == found["auc"] == 1.0
    # The launcher goes by these; Estimator adds the loss.
    assert {*found, "loss"} == set(METRICS_OF_TWO_CLASSES)


def test_the_metrics_of_several_classes():
    found = _loss([[1.0, 3.0, 0.0], [0.5, -1.0, 0.0]], [1, 0], classes=3)
    assert {*found, "loss"} == set(METRICS_OF_CLASSES)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_log_loss_of_several_classes_is_that_of_scikit_learn(weighted):
    rng = np.random.default_rng(1)
    logits, labels = (rng.normal(size=(300, 4)) * 6).astype(np.float32), rng.integers(0, 4, 300)
    logits[0], labels[0] = [200, 0, 0, 0], 1  # clipped, as a probability of 0 has no logarithm
    weights = rng.integers(0, 4, 300).astype(np.float32) if weighted else None
    found = _loss(logits, labels, {WEIGHT: weights} if weighted else {}, classes=4)
    p = tf.nn.softmax(logits).numpy()
    truth = sklearn_metrics.log_loss(labels, p, sample_weight=weights)
    assert found["log_loss"] == pytest.approx(truth, abs=1e-6)


def test_regression_is_of_squares():
    found = _loss([[2.0], [5.0]], [1, 2], task="regression")
    assert found["average_loss"] == pytest.approx((1 + 9) / 2)
    # The launcher goes by these; Estimator adds the loss.
    assert {*found, "loss"} == set(METRICS_OF_NUMBERS)


@pytest.mark.parametrize(
    ("params", "logits", "wanted"),
    [
        ({"classes": 2}, [[2.0], [-1.5]], (3 * _log_loss(2, 1) + _log_loss(-1.5, 0)) / 4),
        ({"task": "regression"}, [[2.0], [5.0]], (3 * 1 + 25) / 4),
    ],
)
def test_examples_count_by_their_weight(params, logits, wanted):
    found = _loss(logits, [1, 0], {WEIGHT: [3.0, 1.0]}, **params)
    assert found["average_loss"] == pytest.approx(wanted, rel=1e-5)


def test_numbers_are_served_and_evaluated_at_their_scale():
    params = {"task": "regression", "offset": 1000.0, "scale": 50.0}
    head = heads.Head({"optimizer": UPDATES, **params})
    with tf.Graph().as_default(), v1.Session() as session:
        logits, labels = tf.constant([[2.0], [-1.0]]), tf.constant([1103, 946], tf.int64)
        served = head.create_estimator_spec({}, Keys.PREDICT, logits).predictions
        assert session.run(served["predictions"]).tolist() == [[1100.0], [950.0]]
        spec = head.create_estimator_spec({}, Keys.EVAL, logits, labels)
        mean, update = spec.eval_metric_ops["average_loss"]
        session.run(v1.local_variables_initializer())
        session.run(update)
        assert session.run(mean) == pytest.approx((9 + 16) / 2)


@pytest.mark.parametrize("goals", [False, True])
def test_whole_numbers_far_from_zero_are_learnt_and_evaluated_as_they_are(goals):
    """Those of the offset and of seconds are 128 apart in float32."""
    offset, scale = 1_700_008_651, 17_000.0
    own = {"task": "regression", "offset": float(offset), "scale": scale}
    head = heads.Head({"optimizer": UPDATES, **own})
    if goals:
        head = heads.Head({"optimizer": UPDATES, "goals": {"c": {**own, "weight": 1.0}}})
    y = offset + np.random.default_rng(1).integers(-17_000, 17_000, 50)
    near = float(np.float32(offset))
    x = ((y - near) / scale + 1e-4).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        logits, labels = tf.constant(x[:, None]), tf.constant(y, tf.int64)
        labels = {"c": labels} if goals else labels
        served = head.create_estimator_spec({}, Keys.PREDICT, logits)
        outputs = served.export_outputs["serving_default"].outputs
        predicted = session.run(outputs["c/prediction" if goals else "prediction"])
        spec = head.create_estimator_spec({}, Keys.EVAL, logits, labels)
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        session.run([update for _, update in spec.eval_metric_ops.values()])
        found = {n.removeprefix("c/"): session.run(v) for n, (v, _) in spec.eval_metric_ops.items()}
        assert session.run(spec.loss) == pytest.approx(1e-8, rel=1e-2)
    missed = predicted.astype(float) - y
    assert found["mean_absolute_error"] == pytest.approx(np.abs(missed).mean(), rel=1e-9)
    assert found["rmse"] ** 2 == pytest.approx(np.square(missed).mean(), rel=1e-9)
    assert found["average_loss"] == pytest.approx(np.square(missed).mean(), rel=1e-9)
    assert found["label/mean"] == y.mean()


@pytest.mark.parametrize("weights", [{}, {WEIGHT: [3.0, 0.5]}])
def test_the_loss_of_training_and_of_an_evaluation_have_one_unit(weights):
    """That of the label in one and of its scale in the other, curves could not be compared."""
    params = {"task": "regression", "offset": 1000.0, "scale": 50.0}
    head = heads.Head({"optimizer": UPDATES, **params})
    found = {}
    for mode in (Keys.TRAIN, Keys.EVAL):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.train.get_or_create_global_step()
            logits = tf.Variable([[2.0], [-1.0]], trainable=True)
            given = {name: tf.constant(values) for name, values in weights.items()}
            labels = tf.constant([1103, 946], tf.int64)
            loss = head.create_estimator_spec(given, mode, logits, labels).loss
            session.run(v1.global_variables_initializer())
            found[mode] = session.run(loss)
    squares = np.array([9, 16]) / 50.0**2 * weights.get(WEIGHT, [1, 1])
    assert found == pytest.approx(dict.fromkeys(found, squares.mean()), rel=1e-4)


@pytest.mark.parametrize(
    ("params", "width", "served"),
    [
        ({"classes": 2}, 1, {"class": [None], "probabilities": [None, 2]}),
        ({"classes": 5}, 5, {"class": [None], "probabilities": [None, 5]}),
        ({"task": "regression"}, 1, {"prediction": [None]}),
    ],
)
def test_what_is_served(params, width, served):
    head = heads.Head({"optimizer": UPDATES, **params})
    assert head.logits_dimension == width
    with tf.Graph().as_default():
        logits = v1.placeholder(tf.float32, [None, width])
        spec = head.create_estimator_spec({}, Keys.PREDICT, logits, None, optimizer="ignored")
        outputs = spec.export_outputs["serving_default"].outputs
        assert {name: x.shape.as_list() for name, x in outputs.items()} == served


@pytest.mark.parametrize("named", [True, False])
def test_what_else_is_served_as_it_is_predicted(named):
    """Of a classification of the user's own, under names that say nothing, or none."""
    with tf.Graph().as_default():
        scores = tf.constant([[0.25, 0.75]])
        outputs = {"serving_default": tf.estimator.export.ClassificationOutput(scores)}
        predictions = {"scores": scores} if named else scores
        spec = tf.estimator.EstimatorSpec(Keys.PREDICT, predictions, export_outputs=outputs)
        found = heads.make_servable(spec).export_outputs
        assert list(found) == ["serving_default"]
        assert list(found["serving_default"].outputs.values()) == [scores]


@pytest.mark.parametrize("scale", [1.0, 7e11])
def test_gradients_do_not_grow_with_the_scale_of_a_regression(scale):
    """Adam squares them: of labels about 1e12 they overflowed, and the loss was nan at step 3."""
    with tf.Graph().as_default(), v1.Session() as session:
        net = v1.get_variable("net", [2, 1], initializer=v1.zeros_initializer())
        head = heads.Head({"task": "regression", "scale": scale, "optimizer": UPDATES})
        labels = tf.constant([scale, -3 * scale], tf.float32)
        v1.train.get_or_create_global_step()
        spec = head.create_estimator_spec({}, Keys.TRAIN, net, labels)
        (gradient,) = tf.gradients(spec.loss, net)
        session.run(v1.global_variables_initializer())
        loss, found = session.run([spec.loss, gradient])
    assert loss == pytest.approx(5.0)
    assert found[:, 0] == pytest.approx([-1.0, 3.0])


@pytest.mark.parametrize(
    ("logits", "classes", "index"),
    [([[0.3]], 2, 0), ([[0.3]], 2, 1), ([[0.1, 0.4, -1.0]], 3, 2)],
)
def test_a_sample_is_corrected_but_in_training(logits, classes, index):
    params = {"classes": classes, "optimizer": UPDATES, "offset_of_sample": (index, -np.log(0.1))}

    def probabilities(mode, **params):
        with tf.Graph().as_default(), v1.Session() as session:
            spec = heads.build_estimator_spec(
                tf.constant(logits), {}, tf.constant([0]), mode=mode, params=params
            )
            return session.run(spec.predictions["probabilities"])[0]

    given = probabilities(Keys.PREDICT, **{**params, "offset_of_sample": (index, 0.0)})
    # Of ten examples of that class one was kept.
    wanted = given * np.where(np.arange(classes) == index, 10.0, 1.0)
    found = probabilities(Keys.PREDICT, **params)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-6)
    assert heads.compute_offsets({"classes": 2}) is None


GOALS = {
    "a": {"task": "classification", "classes": 2, "weight": 1.0},
    "b": {"task": "classification", "classes": 3, "weight": 2.0},
    "c": {"task": "regression", "offset": 3.0, "scale": 2.0, "weight": 0.5},
}
LOGITS = [[0.3, 1.0, 0.0, -1.0, 0.5], [-0.2, 0.0, 2.0, 0.0, -1.0]]


def _several(mode, masks=None):
    """Returns the loss and the metrics or predictions of two examples with three labels."""
    params = {"goals": GOALS, "optimizer": UPDATES}
    with tf.Graph().as_default(), v1.Session() as session:
        weights = {name_weight(n): tf.constant(mask) for n, mask in (masks or {}).items()}
        given = {"a": [1, 0], "b": [0, 2], "c": [4.0, 5.0]}
        labels = {name: tf.constant(values) for name, values in given.items()}
        spec = heads.Head(params).create_estimator_spec(
            weights,
            mode,
            tf.constant(LOGITS) * tf.Variable(1.0, trainable=True),
            labels,
        )
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        if mode == Keys.TRAIN:
            return session.run(spec.loss)
        session.run([update for _, update in spec.eval_metric_ops.values()])
        return {name: session.run(value) for name, (value, _) in spec.eval_metric_ops.items()}


def _losses():
    """Returns the losses of each label, two examples each, by hand."""
    b = np.array(LOGITS)[:, 1:4]
    of_b = np.log(np.exp(b).sum(axis=1)) - b[[0, 1], [0, 2]]
    # In units of its scale: the label less its offset, over the scale.
    of_c = np.square(np.array([0.5, -1.0]) - (np.array([4.0, 5.0]) - 3) / 2)
    return np.array([[_log_loss(0.3, 1), _log_loss(-0.2, 0)], of_b, of_c])


def test_losses_of_several_labels_are_added_up_by_weight():
    assert heads.Head({"goals": GOALS}).widths == [1, 3, 1]
    wanted = (_losses().mean(axis=1) * [1.0, 2.0, 0.5]).sum()
    assert _several(Keys.TRAIN) == pytest.approx(wanted, rel=1e-5)
    found = _several(Keys.EVAL)
    of_each = {name: found[f"{name}/loss"] for name in GOALS}
    assert of_each == pytest.approx(dict(zip(GOALS, _losses().mean(axis=1), strict=True)), rel=1e-5)
    assert sum(GOALS[name]["weight"] * of_each[name] for name in GOALS) == pytest.approx(wanted)


def test_a_label_that_is_missing_adds_nothing():
    losses = _losses()
    wanted = losses[0].mean() + 2 * losses[1, 0] / 2 + 0.5 * losses[2, 1] / 2
    assert _several(Keys.TRAIN, {1: [1.0, 0.0], 2: [0.0, 1.0]}) == pytest.approx(wanted, rel=1e-5)
    found = _several(Keys.EVAL, {1: [1.0, 0.0], 2: [0.0, 1.0]})
    assert found["b/accuracy"] == 1.0  # that of the first example; the second is wrong
    assert found["b/average_loss"] == pytest.approx(losses[1, 0], rel=1e-5)
    assert found["b/log_loss"] == pytest.approx(losses[1, 0], rel=1e-5)
    assert found["c/average_loss"] == pytest.approx(4 * losses[2, 1], rel=1e-5)
    assert found["c/rmse"] == pytest.approx(np.sqrt(4 * losses[2, 1]), rel=1e-5)
    assert {"a/auc", "a/log_loss", "a/calibration", "a/loss"} <= set(found)
    assert all(name.partition("/")[0] in GOALS for name in found)


def test_a_label_that_no_example_has_is_not_evaluated():
    """A loss of 0 would be the best there is."""
    found = _several(Keys.EVAL, {n: [0.0, 0.0] for n in range(3)})
    numbers = {name for name, value in found.items() if not np.isnan(value)}
    # What it adds to the loss of all labels.
    assert numbers == {"a/loss", "b/loss", "c/loss"}
    assert {found[name] for name in numbers} == {0}
