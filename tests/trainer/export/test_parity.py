"""Exports that answer as their Estimator, and those that do not, with what is to blame."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.steps import categories, numbers
from tests.trainer import changed_model, small_table, user_code
from trainer.export import differences, exporters, parity, rounding, serving_graph
from trainer.metrics import slice_metrics


def _model_fn(answer):
    """A linear model whose probability of being late goes through `answer(p, columns)`."""

    def model_fn(features, labels, mode, params):
        x = tf.concat([tf.cast(features["size"], tf.float32)], axis=1)
        p = tf.sigmoid(tf.compat.v1.layers.dense(x, 1)[:, 0])
        if mode == tf.estimator.ModeKeys.PREDICT:
            answers = {"probabilities": answer(p, features), "name": tf.fill(tf.shape(p), "é")}
            return tf.estimator.EstimatorSpec(mode, predictions=answers)
        loss = tf.reduce_mean(tf.square(p - tf.cast(labels, tf.float32)))
        step = tf.compat.v1.train.get_or_create_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))

    return model_fn


COLUMNS_AS_THEY_ARE = re.sub(r"(?ms)^features:.*?^model:", "model:", small_table.CONFIG)


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """Exports a model with `answer` in its predictions, and has it checked."""

    def check(answer):
        monkeypatch.setattr(user_models, "model_fn", _model_fn(answer), raising=False)
        table = small_table.Table(
            tmp_path, f"model={{name: '{__name__}:model_fn'}}", text=COLUMNS_AS_THEY_ARE
        )
        return _check(table)

    import sys

    user_models = sys.modules[__name__]
    return check


def _check(table):
    return _compare(table, _export(table))


def _export(table, checkpoint=None):
    written = table.estimator.export_saved_model(
        table.run.path + "/export",
        serving_graph.build_serving_input_fn(table.records.transforms),
        checkpoint_path=checkpoint or table.checkpoint,
    ).decode()
    exporters.name_signatures(written)
    return written


def _compare(table, written):
    return parity.Gate(table.records).check(table.estimator, table.checkpoint, written)


def test_equal_models_pass(tmp_path):
    table = small_table.Table(tmp_path)
    # 100 of the split; three columns may be missing; 2 ends and beyond of 2 numbers (no statistics
    # say any of size), 2 texts, 2 of the vocabulary.
    assert _check(table) == 100 + 3 + 2 * 3 + 2 + 2


def test_a_model_of_the_user_passes(exported):
    assert exported(lambda p, features: p) == 115


OF_SIZE = re.sub(r"(?ms)^features:.*?^model:", "features: {size: {}}\nmodel:", small_table.CONFIG)


@pytest.mark.parametrize(
    ("factory", "answers"),
    [("classifier", {"class", "probabilities"}), ("regressor", {"prediction"})],
)
def test_estimators_of_tensorflow_serve_columns(tmp_path, factory, answers):
    """Their own signatures but for `predict` take nothing but one text."""
    table = small_table.Table(
        tmp_path, f"model={{name: '{user_code.__name__}:{factory}'}}", text=OF_SIZE
    )
    assert _check(table) == 100
    [export] = (tmp_path / "runs" / "table" / "export").iterdir()
    signatures = tf.saved_model.load(str(export)).signatures
    assert set(signatures["serving_default"].structured_outputs) == answers
    assert {"examples", "predict"} < set(signatures)
    rows = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=["carrier"]
    )[None].rows
    assert rows[0].records == 100


def test_signatures_of_ones_own_stay(tmp_path):
    table = small_table.Table(
        tmp_path, f"model={{name: '{user_code.__name__}:embedding_model_fn'}}", text=OF_SIZE
    )
    assert _check(table) == 100
    [export] = (tmp_path / "runs" / "table" / "export").iterdir()
    signatures = tf.saved_model.load(str(export)).signatures
    assert set(signatures) == {"serving_default", "examples", "hidden", "examples:hidden"}
    assert signatures["hidden"](size=tf.zeros([3, 2]))["hidden"].shape == (3, 4)


def test_what_the_schema_forbids_may_be_refused(exported):
    def only_days(p, features):
        check = tf.debugging.assert_less(features["day"], tf.constant(32, tf.int64))
        with tf.control_dependencies([check]):
            return tf.identity(p)

    # The time and the day that are out of range are left out.
    assert exported(only_days) == 115 - 2


def test_a_row_of_the_split_that_is_refused(exported):
    calls = []

    def later(p, features):
        calls.append(p)
        if len(calls) == 1:  # the export
            with tf.control_dependencies(
                [tf.debugging.assert_less(features["day"], tf.constant(20, tf.int64))]
            ):
                return tf.identity(p)
        return p

    with pytest.raises(
        errors.ModelError, match=r"only \d+ of 100 rows of the eval split are answered"
    ):
        exported(later)


def test_a_python_global_that_changes(exported):
    calls = []

    def answer(p, features):
        calls.append(p)
        return p * len(calls)

    with pytest.raises(
        errors.ModelError,
        match=r"Estimator\.predict differ on \d+ of \d+ rows \(serving_default/"
        r"probabilities of row \d+: [\d.e-]+, not [\d.e-]+; rounding makes at most [\d.e-]+\)\. "
        r"No row of the eval split agrees: all features are equal, parameters or code of the model "
        r"differ\. Nothing was published",
    ):
        exported(answer)


def test_something_random(exported):
    with pytest.raises(errors.ModelError, match="It answers the same rows differently each time"):
        exported(lambda p, features: p + tf.random.uniform(tf.shape(p)))


def _less_its_mean(p, features):
    return p - tf.reduce_mean(p)


def _as_batch_norm_in_training(p, features):
    return tf.nn.batch_normalization(p, *tf.nn.moments(p, [0]), None, None, 1e-3)


def _less_its_least(p, features):
    """Rare events: probabilities so small that they move little."""
    return 1e-5 * (p - tf.reduce_min(p))


@pytest.mark.parametrize(
    "answer",
    [
        _less_its_mean,
        _as_batch_norm_in_training,
        _less_its_least,
    ],
)
def test_a_model_whose_answers_depend_on_the_batch_is_refused(exported, answer):
    with pytest.raises(
        errors.ModelError,
        match=r"^export of '.*': the model's answers to a row depend on the other rows of its "
        r"batch \(probabilities of row \d+: [-\d.e]+, next to other rows [-\d.e]+\), so it "
        r"cannot be served as it was trained\. .*\. Nothing was published$",
    ):
        exported(answer)


def _of_large_terms(p, features):
    """Each answer is what rounding leaves of numbers that are 10 million times larger."""
    return tf.reduce_sum(tf.concat([p[:, tf.newaxis] * 1e7, -1e7 * p[:, tf.newaxis]], 1), axis=1)


def test_answers_that_rounding_alone_moves_are_no_dependence(exported):
    assert exported(_of_large_terms) == 115


def test_batch_normalization_with_the_averages_of_training_passes(tmp_path):
    network = "{name: dnn, params: {hidden_units: [8], batch_norm: true, dropout: 0.5}}"
    table = small_table.Table(tmp_path, f"model={network}", text=OF_SIZE)
    assert _check(table) == 100


def _wrong_where(condition):
    """What is exported is wrong where a condition on the columns holds."""
    calls = []

    def answer(p, features):
        calls.append(p)
        return p + 0.01 * tf.cast(condition(features), tf.float32) if len(calls) == 1 else p

    return answer


@pytest.mark.parametrize(
    ("condition", "blamed"),
    [
        (lambda x: tf.equal(x["carrier"], "UA"), r"First feature that differs: 'carrier'\."),
        (lambda x: tf.math.is_nan(x["dep time"]), r"First feature that differs: 'dep time'\."),
        (lambda x: x["dep time"] > 2400, r"differs: 'dep time' \(out of range\)\."),
        (lambda x: tf.equal(x["unused"], ""), r"differs: 'unused' \(empty text\)\."),
    ],
    ids=["a value", "missing", "only an edge", "only an empty text"],
)
def test_the_feature_to_blame_is_named(exported, condition, blamed):
    with pytest.raises(errors.ModelError, match=blamed):
        exported(_wrong_where(condition))


@pytest.mark.parametrize(
    "bucket",
    [lambda x: tf.cast(x > 1200, tf.int64), lambda x: tf.cast(x >= 1201, tf.int64)],
    ids=["of the other side", "moved"],
)
def test_a_boundary_of_buckets_is_found_where_no_row_lies_near(tmp_path, monkeypatch, bucket):
    buckets = "[{missing: {fill: 0}}, {buckets: {boundaries: [1200]}}]"
    text = small_table.CONFIG.replace(
        "  day: {steps:", f"  late hour: {{of: dep time, steps: {buckets}}}\n  day: {{steps:"
    )
    table = small_table.Table(tmp_path, text=text)
    with monkeypatch.context() as planted:
        planted.setattr(categories.Buckets, "apply", lambda self, x: bucket(x))
        written = _export(table)
    with pytest.raises(errors.ModelError, match=r"differs: 'dep time' \(known value 1200\.0\)\."):
        _compare(table, written)


def _tagged(split):
    """The records of the table, with lists that are of any length."""
    examples = [tf.train.Example.FromString(payload) for payload in small_table.payloads(split)]
    for n, example in enumerate(examples):
        example.features.feature["tags"].bytes_list.value.extend([b"a", b"b", b"c"][: n % 4])
    return [example.SerializeToString() for example in examples]


def test_a_step_that_makes_all_rows_wrong_is_named(tmp_path, monkeypatch):
    text = (
        small_table.CONFIG.replace("size: {steps: []}", "size: {steps: [{clip: {min: -9}}]}")
        .replace("    unused:", "    tags: {type: string, list: true, max_items: 4}\n    unused:")
        .replace("  day: {steps", "  tags: {steps: [{hash: {buckets: 7}}]}\n  day: {steps")
    )
    table = small_table.Table(tmp_path, text=text, made=_tagged)
    with monkeypatch.context() as planted:
        planted.setattr(numbers.Clip, "apply", lambda self, x: x + 0.5)
        written = _export(table)
    with pytest.raises(
        errors.ModelError,
        match=r"No row of the eval split agrees: the first feature that differs is 'size'\. Noth",
    ):
        _compare(table, written)


def test_every_row_is_wrong(exported):
    def both(x):
        return tf.equal(x["carrier"], "AA") | (x["size"][:, 0] > -9)

    with pytest.raises(
        errors.ModelError, match=r"all features are equal, parameters or code of the"
    ):
        exported(_wrong_where(both))


def test_unequal():
    ours = np.array([1.0, 1000.0, np.nan, np.inf, 0.0], np.float32)
    theirs = np.array([1.000003, 1000.0004, np.nan, np.inf, 9e-7], np.float32)
    limit = np.array([1e-6, 1e-3, 1e-6, 1e-6, 1e-6])
    assert differences.find_unequal(ours, theirs, limit).tolist() == [
        True,
        False,
        False,
        False,
        False,
    ]
    texts = np.array([b"a", b"bc"], object)
    assert differences.find_unequal(texts, np.array([b"a", b"b"]), None).tolist() == [False, True]
    assert differences.find_unequal(np.zeros((2, 3)), np.zeros((2, 1)), None).tolist() == [
        True,
        True,
    ]


def test_a_class_that_rounding_decides_is_no_difference():
    """Of two classes of one probability either may come first."""
    wanted = {
        "class": np.array([0, 1, 0]),
        "probabilities": np.array([[0.5, 0.5], [0.2, 0.8], [0.7, 0.3]], np.float32),
    }
    found = {f"s/{name}": values.copy() for name, values in wanted.items()}
    found["s/class"][:] = [1, 1, 1]
    extreme = np.zeros(3, bool)
    known = rounding.measure(wanted, [], extreme)
    apart = differences.compare(wanted, found, known, extreme=extreme, signatures=["s"])
    assert apart.wrong.tolist() == [False, False, True]
    assert apart.worst == "s/class of row 2: 1, not 0"


def test_a_checkpoint_of_a_changed_model_is_refused(tmp_path):
    """Nothing else looks at what is exported again, after it was evaluated by an earlier start."""
    table, checkpoint = changed_model.build(tmp_path)
    written = _export(table, checkpoint)
    with changed_model.expect_refusal(checkpoint):
        parity.Gate(table.records).check(table.estimator, checkpoint, written)
