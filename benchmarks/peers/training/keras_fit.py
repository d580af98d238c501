"""tf.keras: a functional model, `compile` and `fit`; its one callback measures."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from benchmarks.peers import measure
from benchmarks.peers.training import tf_input

layers = tf.keras.layers


def build_model(given: dict[str, Any]) -> tf.keras.Model:
    """Returns wide & deep, compiled. Of lists, the vectors of the items are averaged."""
    numbers = layers.Input([2 * len(given["numbers"])], name="numbers")
    inputs, wide, deep = {"numbers": numbers}, [], [numbers]
    for of in given["ids"]:
        inputs[of["name"]] = ids = layers.Input([], dtype=tf.int64, name=of["name"])
        wide.append(_build_table(of, 1)(ids))
        deep.append(_build_table(of, given["width"])(ids))
    for of in given["lists"]:
        inputs[of["name"]] = ids = layers.Input(
            [None], dtype=tf.int64, ragged=True, name=of["name"]
        )
        wide.append(_pool(tf.reduce_sum, _build_table(of, 1)(ids)))
        deep.append(_pool(tf.reduce_mean, _build_table(of, given["width"])(ids)))
    x = layers.Concatenate()(deep)
    for units in given["hidden_units"]:
        x = layers.Dense(units, "relu")(x)
    logit = layers.Add()([layers.Dense(1)(x), *wide])
    made = tf.keras.Model(inputs, logit)
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    made.compile(tf.keras.optimizers.Adam(given["learning_rate"]), loss)
    return made


def _build_table(of: dict[str, Any], width: int) -> layers.Layer:
    start = "zeros" if width == 1 else "glorot_uniform"
    return layers.Embedding(len(of["values"]) + 1, width, embeddings_initializer=start)


def _pool(how, vectors):
    def pool(x):
        found = how(x, axis=1)
        return tf.where(tf.math.is_finite(found), found, 0.0)

    return layers.Lambda(pool)(vectors)


class _Steps(tf.keras.callbacks.Callback):
    def __init__(self, meter: measure.Meter) -> None:
        super().__init__()
        self._meter = meter

    def on_train_batch_end(self, batch, logs=None):
        self._meter.step()


def main(given: dict[str, Any]) -> None:
    """Trains, and scores the test split."""
    tf.keras.utils.set_random_seed(given["seed"])
    made, meter = build_model(given), measure.Meter(given)
    rows = tf_input.read_train(given)
    made.fit(rows, steps_per_epoch=given["steps"], callbacks=[_Steps(meter)], verbose=0)
    measure.report(**meter.result(), auc=score_test(made, given))


def score_test(made: tf.keras.Model, given: dict[str, Any]) -> float:
    """Scores the test split."""
    test = tf_input.read_test(given)
    logit = made.predict(test.map(lambda features, _: features), verbose=0)
    label = list(test.map(lambda _, label: label).unbatch().as_numpy_iterator())
    return measure.compute_auc(label, logit)


if __name__ == "__main__":
    main(measure.read_settings())
