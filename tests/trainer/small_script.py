"""A script that calls `trainer.run`: STORAGE WHAT [SETTING=VALUE].

It learns y = 3 x by one variable; WHAT says what is odd about it.
"""

from __future__ import annotations

import json
import os
import sys

import tensorflow as tf

from trainer import run

v1 = tf.compat.v1


def rows():
    numbers = tf.data.Dataset.range(64).map(lambda n: tf.cast(n, tf.float32) / 64)
    return numbers.map(lambda x: ({"x": x}, 3 * x)).batch(8)


def endless():
    return rows().repeat()


def tensors():
    return {"x": tf.zeros([8])}, tf.zeros([8])


def wants_more(batch):
    return rows()


def model(what):
    def model_fn(features, labels, mode):
        weight = v1.get_variable("w", initializer=0.0)
        answer = weight * features["x"]
        if mode == tf.estimator.ModeKeys.PREDICT:
            answers = None if what == "no_predictions" else {"answer": answer}
            return tf.estimator.EstimatorSpec(mode, predictions=answers)
        loss = tf.reduce_mean(tf.square(answer - labels))
        step = v1.train.get_or_create_global_step()
        if what == "loss":
            loss *= tf.where(step > 30, float("nan"), 1.0)
        odd = tf.where(step >= 40, float("nan"), 1.0)
        update = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        metrics = {"error": v1.metrics.mean(loss)}
        if what == "odd":
            metrics["odd"] = v1.metrics.mean(odd)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update, eval_metric_ops=metrics)

    return model_fn


class Told(tf.estimator.SessionRunHook):
    def __init__(self, line):
        self._line = line

    def end(self, session):
        print(self._line, flush=True)


class Listener(tf.estimator.CheckpointSaverListener):
    def after_save(self, session, global_step_value):
        print(f"listened at {global_step_value}", flush=True)


def main(name="r"):
    storage, what, *given = sys.argv[1:]
    settings = {key: json.loads(value) for key, _, value in (word.partition("=") for word in given)}
    input_fn = {"tensors": tensors, "wants_more": wants_more, "ends": rows}.get(what, endless)
    exporter = tf.estimator.FinalExporter(
        "final",
        tf.estimator.export.build_parsing_serving_input_receiver_fn(
            {"x": tf.io.FixedLenFeature([], tf.float32)}
        ),
    )
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"]) if what == "mirrored" else None
    estimator = tf.estimator.Estimator(
        model(what),
        config=tf.estimator.RunConfig(save_checkpoints_steps=20, train_distribute=strategy),
    )
    steps = None if what == "no_steps" else 40
    found = run(
        {"no_estimator": "mine"}.get(what, estimator),
        tf.estimator.TrainSpec(
            input_fn,
            max_steps=steps,
            hooks=[Told("hook of train_spec")],
            saving_listeners=[Listener()],
        ),
        None
        if what == "no_eval_spec"
        else tf.estimator.EvalSpec(
            endless,
            steps=3,
            hooks=[Told("hook of eval_spec")],
            exporters=[exporter] if what == "exporter" else None,
        ),
        run=name,
        storage=storage,
        settings=settings,
    )
    print(f"returned {json.dumps(found)} in {os.getpid()}", flush=True)


if __name__ == "__main__":
    main()
    if sys.argv[2] == "twice":
        main("second")
