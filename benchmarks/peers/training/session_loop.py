"""A loop by hand: one graph, one `tf.compat.v1.Session`, `session.run` until done. It writes
neither checkpoints nor summaries, and a kill loses all."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.peers import measure
from benchmarks.peers.training import tf_input

v1 = tf.compat.v1


def build_logits(features: dict[str, Any], given: dict[str, Any]) -> tf.Tensor:
    """Returns the logit of each row, `[batch]`: the wide part and the deep one."""
    wide, deep = [], [features["numbers"]]
    for of in (*given["ids"], *given["lists"]):
        name, rows = of["name"], len(of["values"]) + 1
        table = v1.get_variable(f"table_{name}", [rows, given["width"]])
        weight = v1.get_variable(f"weight_{name}", [rows, 1], initializer=v1.zeros_initializer())
        ids = features[name]
        if isinstance(ids, tf.RaggedTensor):
            sparse = ids.to_sparse()
            deep.append(tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean"))
            wide.append(tf.nn.safe_embedding_lookup_sparse(weight, sparse, combiner="sum"))
        else:
            deep.append(tf.nn.embedding_lookup(table, ids))
            wide.append(tf.nn.embedding_lookup(weight, ids))
    x = tf.concat(deep, axis=1)
    for number, units in enumerate(given["hidden_units"]):
        x = tf.nn.relu(_build_dense(x, units, f"hidden_{number}"))
    return tf.squeeze(_build_dense(x, 1, "logit") + tf.add_n(wide), axis=1)


def _build_dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    kernel = v1.get_variable(f"{name}_kernel", [x.shape[1], units])
    bias = v1.get_variable(f"{name}_bias", [units], initializer=v1.zeros_initializer())
    return tf.matmul(x, kernel) + bias


def main(given: dict[str, Any]) -> None:
    """Trains, and scores the test split."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(given["seed"])
        train = v1.data.make_initializable_iterator(tf_input.read_train(given))
        test = v1.data.make_initializable_iterator(tf_input.read_test(given))
        with v1.variable_scope("model"):
            features, label = train.get_next()
            losses = tf.nn.sigmoid_cross_entropy_with_logits(label, build_logits(features, given))
            loss = tf.reduce_mean(losses)
        with v1.variable_scope("model", reuse=True):
            features, test_label = test.get_next()
            test_logit = build_logits(features, given)
        step = v1.train.AdamOptimizer(given["learning_rate"]).minimize(loss)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run([train.initializer, test.initializer])
        meter = measure.Meter(given)
        for _ in range(given["steps"]):
            session.run([step, loss])
            meter.step()
        scored = []
        try:
            while True:
                scored.append(session.run((test_label, test_logit)))
        except tf.errors.OutOfRangeError:
            label, logit = (np.concatenate(side) for side in zip(*scored, strict=True))
    measure.report(**meter.result(), auc=measure.compute_auc(label, logit))


if __name__ == "__main__":
    main(measure.read_settings())
