"""Models that could not be exported or evaluated are refused before their first step."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf

from pipeline import errors
from tests.trainer import small_table, user_code
from trainer.evaluation.evaluator import RunEvaluator
from trainer.monitoring.status_reporter import Reporter

OF_SIZE = re.sub(r"(?ms)^features:.*?^model:", "features: {size: {}}\nmodel:", small_table.CONFIG)
KERAS = "model={name: keras, params: {network: 'tests.trainer.user_code:small_network'}}"
SLICES, GROUP, LOSS = "eval.slices=[carrier]", "eval.group=day", "eval.metric=loss"
AVERAGE = "train.optimizer.average=0.9"
_v1 = tf.compat.v1


def _answering(answers):
    """Returns a model of one layer that predicts `answers` of its probabilities, `[batch]`."""

    def model_fn(features, labels, mode):
        p = tf.sigmoid(_v1.layers.dense(features["size"], 1)[:, 0])
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=answers(p))
        loss = tf.reduce_mean(tf.square(p - tf.cast(labels, tf.float32)))
        step = _v1.train.get_or_create_global_step()
        update = _v1.train.GradientDescentOptimizer(0.5).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)

    return model_fn


probability = _answering(lambda p: {"probability": p})
number = _answering(lambda p: {"prediction": p})
column = _answering(lambda p: {"prediction": p[:, None]})
mean = _answering(lambda p: {"prediction": p, "mean": tf.reduce_mean(p)})
broken = _answering(lambda p: {"prediction": p}["none of these"])


def _table(folder, model, *overrides):
    name = model if model.startswith("model=") else f"model={{name: '{model}'}}"
    return small_table.Table(folder, name, *overrides, text=OF_SIZE)


def _check(table):
    evaluation = RunEvaluator(
        table.job,
        table.run,
        table.records,
        estimator=table.estimator,
        reporter=Reporter(table.run, "chief-0", 20),
    )
    evaluation.check_model()
    return evaluation


@pytest.mark.parametrize(
    ("model", "overrides", "text"),
    [
        (
            "probability",
            [SLICES],
            r"^eval\.slices: model_fn in mode 'infer' must predict 'class' or 'prediction', by "
            r"which slices are evaluated; it predicts probability\. Add one, or remove eval\.sl",
        ),
        ("column", [SLICES], r"predicts 'prediction' of shape \(None, 1\); slices need one value"),
        ("mean", [], r"^model_fn in mode 'infer': 'mean' is one value for a whole batch; "),
        ("broken", [], r"^model_fn in mode 'infer': KeyError: 'none of these'; it must return an "),
    ],
)
def test_what_no_export_could_serve_is_refused(tmp_path, model, overrides, text):
    with pytest.raises(errors.UsageError, match=text):
        _check(_table(tmp_path, f"{__name__}:{model}", LOSS, *overrides))


@pytest.mark.parametrize(
    ("model", "overrides"),
    [
        (f"{__name__}:probability", [LOSS]),
        (f"{__name__}:number", [LOSS, SLICES]),
        (f"{__name__}:column", [LOSS]),
        (f"{user_code.__name__}:embedding_model_fn", [LOSS]),
        (f"{user_code.__name__}:classifier", [SLICES]),
        (KERAS, [SLICES, GROUP]),
        ("linear", [SLICES, GROUP]),
    ],
)
def test_what_exports_can_serve_is_taken(tmp_path, model, overrides):
    _check(_table(tmp_path, model, *overrides))


@pytest.mark.parametrize(
    "model", [f"{__name__}:probability", f"{user_code.__name__}:classifier", KERAS]
)
def test_variables_that_an_own_model_reads_are_in_its_checkpoints(tmp_path, model):
    table = _table(tmp_path, model, LOSS)
    needed = _check(table).needed
    saved = {name for name, _ in tf.train.list_variables(table.checkpoint)}
    for mode in ("eval", "infer"):
        assert len(needed[mode]) >= 3 and saved >= set(needed[mode])


@pytest.mark.parametrize("settings", [[AVERAGE], ["model={name: linear}"]])
def test_of_a_saver_of_its_own_and_of_shipped_models_nothing_is_known(tmp_path, settings):
    found = _check(_table(tmp_path, f"{__name__}:probability", LOSS, *settings)).needed
    assert not any(found.values())
