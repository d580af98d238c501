"""The `loss` of an evaluation is the mean over its examples, however they are cut into batches."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import small_table
from trainer.heads import mean_loss, means
from trainer.metrics import slice_metrics

v1 = tf.compat.v1
ROWS = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 60.0, 7.0], np.float32)


def _plain(features, labels):
    return {"loss": tf.reduce_mean(tf.square(labels))}


def _evaluated(model, input_fn, folder):
    """Returns what an Estimator finds of a model; `model` gives the loss and metrics of a batch."""

    def model_fn(features, labels, mode):
        v1.train.get_or_create_global_step()
        made = model(features, labels)
        spec = tf.estimator.EstimatorSpec(
            mode, loss=made["loss"], eval_metric_ops=made.get("metrics")
        )
        return mean_loss.add_mean_loss(spec, features, labels)

    folder.mkdir(exist_ok=True)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(folder / "model.ckpt"), 0)
    return mean_loss.Estimator(model_fn, str(folder)).evaluate(input_fn)


def _batches(rows, size):
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": rows}, rows)).batch(size)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 100])
def test_it_does_not_depend_on_batches(tmp_path, size):
    found = _evaluated(_plain, _batches(ROWS, size), tmp_path)
    assert set(found) == {"loss", "global_step"}
    assert found["loss"] == pytest.approx(np.square(ROWS.astype(np.float64)).mean(), rel=1e-7)


def test_it_is_in_the_summaries(tmp_path):
    found = _evaluated(_plain, _batches(ROWS, 3), tmp_path)
    [path] = (tmp_path / "eval").iterdir()
    read = {
        value.tag: value.simple_value
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert read["loss"] == pytest.approx(found["loss"])
    assert means.LOSS not in read


def test_many_examples_are_counted(tmp_path):
    """Of 2**24 and more a float32 does not count one by one."""

    def model(features, labels):
        batch = tf.reduce_mean(labels)
        return {"loss": batch, "metrics": {means.LOSS: means.average_batches(batch, labels[0])}}

    rows = np.array([2**25, 1, 1, 1], np.float32)
    found = _evaluated(model, _batches(rows, 1), tmp_path)
    wanted = (2.0**50 + 3) / (2**25 + 3)
    assert found["loss"] == pytest.approx(wanted, rel=1e-8)


def test_a_model_may_count_otherwise(tmp_path):
    """Of a loss that is a mean over some of the examples."""

    def model(features, labels):
        odd = tf.cast(tf.not_equal(labels % 2, 0), tf.float32)
        loss = tf.reduce_sum(odd * labels) / tf.reduce_sum(odd)  # NaN of a batch without any
        return {
            "loss": loss,
            "metrics": {means.LOSS: means.average_batches(loss, tf.reduce_sum(odd))},
        }

    found = _evaluated(model, _batches(ROWS, 1), tmp_path)
    assert found["loss"] == pytest.approx(np.mean([1.0, 3.0, 5.0, 7.0]))
    of_none = _evaluated(model, _batches(2 * ROWS, 3), tmp_path / "none")
    assert np.isnan(of_none["loss"])  # 0 would be the best there is


def test_a_batch_whose_loss_is_nan_is_not_passed_over(tmp_path):
    rows = np.array([1.0, np.nan, 2.0], np.float32)
    assert np.isnan(_evaluated(_plain, _batches(rows, 1), tmp_path)["loss"])


def _sparse(x, y):
    places = tf.stack([tf.range(tf.shape(y, tf.int64)[0]), tf.zeros_like(y, tf.int64)], axis=1)
    return x, tf.SparseTensor(places, y, [tf.shape(y, tf.int64)[0], 1])


@pytest.mark.parametrize(
    ("form", "read"),
    [
        (lambda x, y: (x, {"one": y, "two": y}), lambda x, y: y["two"]),
        (lambda x, y: (x["x"], y), lambda x, y: x),
        (lambda x, y: ({"x": x["x"]}, ()), lambda x, y: x["x"]),
        (lambda x, y: (x, tf.RaggedTensor.from_row_lengths(y, tf.ones_like(y, tf.int64))),
         lambda x, y: y.values),
        (_sparse, lambda x, y: y.values),
    ],
    ids=["labels by name", "features of one tensor", "no labels", "ragged", "sparse"],
)  # fmt: skip
def test_examples_are_counted_in_whatever_is_given(tmp_path, form, read):
    found = _evaluated(
        lambda x, y: {"loss": tf.reduce_mean(read(x, y))},
        lambda: _batches(ROWS, 4)().map(form),
        tmp_path,
    )
    assert found["loss"] == pytest.approx(ROWS.mean())


def test_without_examples_to_count_each_batch_counts_once(tmp_path):
    rows = _batches(ROWS, 1)
    found = _evaluated(
        lambda x, y: {"loss": y}, lambda: rows().unbatch().map(lambda x, y: (x["x"], y)), tmp_path
    )
    assert found["loss"] == pytest.approx(ROWS.mean())


NUMBERS = re.sub(
    r"(?ms)^features:.*?^model:",
    "label: {weight: w}\nfeatures: {x: {}}\nmodel:",
    small_table.CONFIG,
).replace("    late: {", "    w: {type: float32}\n    x: {type: float32}\n    late: {")
L2 = 0.5


def network(l2=L2):
    """A Keras network whose weights are punished."""
    x = tf.keras.Input([1], name="x")
    layer = tf.keras.layers.Dense(1, kernel_regularizer=tf.keras.regularizers.L2(l2))
    return tf.keras.Model(x, layer(x))


def _made(split):
    rng = np.random.default_rng(len(split))
    x = rng.normal(size=small_table.ROWS[split])
    labels = np.rint(200 + 60 * x + 20 * rng.normal(size=len(x))).astype(int)
    return [
        small_table.example(late=int(late), w=[0.1 + late % 3], x=[float(value)])
        for value, late in zip(x, labels, strict=True)
    ]


def _table(folder, *overrides):
    text = NUMBERS.replace("late: {type: int64, min: 0, max: 1}", "late: {type: int64}")
    for name in ("dep time", "size", "day", "carrier", "pixels", "unused"):
        text = re.sub(rf"(?m)^    {name}: .*\n", "", text)
    return small_table.Table(
        folder, *overrides, "eval.metric=average_loss", "eval.batch_size=30", text=text, made=_made
    )


@pytest.mark.parametrize("name", ["scaled", "keras"])
def test_models_against_numpy_on_their_predictions(tmp_path, name):
    model = {
        "scaled": "{name: linear, params: {task: regression, offset: 200, scale: 60}}",
        "keras": f"{{name: keras, params: {{task: regression, network: '{__name__}:network'}}}}",
    }[name]
    table = _table(tmp_path, f"model={model}", "train.optimizer.name=sgd")
    read, checkpoint = table.records.build_eval_input_fn("eval"), table.checkpoint
    found = table.estimator.evaluate(read, checkpoint_path=checkpoint)
    batches = slice_metrics.score_batches(
        table.records, table.estimator, checkpoint, split="eval", slices=[], hooks=()
    )
    parts = [(b[slice_metrics.LABEL], b["prediction"]) for b in batches]
    assert len({len(labels) for labels, _ in parts}) > 1  # batches of different sizes
    labels, predictions = (
        np.concatenate(one).astype(np.float64) for one in zip(*parts, strict=True)
    )
    squares, weights = np.square(labels - predictions), 0.1 + labels % 3
    if name == "scaled":
        assert found["loss"] == pytest.approx(np.mean(weights * squares) / 60**2, rel=1e-5)
        mean = np.average(squares, weights=weights)
        assert (found["average_loss"], found["rmse"]) == pytest.approx((mean, np.sqrt(mean)))
        absolute = np.average(np.sqrt(squares), weights=weights)
        assert found["mean_absolute_error"] == pytest.approx(absolute)
    else:
        [kernel] = [
            tf.train.load_variable(checkpoint, variable)
            for variable, shape in tf.train.list_variables(checkpoint)
            if shape == [1, 1]
        ]
        punished = L2 * float(kernel[0, 0]) ** 2
        assert found["loss"] == pytest.approx(np.mean(weights * squares) + punished, rel=1e-5)
