"""Exports of runs on an input_fn: what they take, and what is compared before publishing."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import shapes
from trainer.export import own_exports
from trainer.input.own_input import OwnInput

HERE = __name__
_v1 = tf.compat.v1
_ROWS = 70


def rows():
    draw = np.random.default_rng(0)
    features = {
        "x": draw.normal(size=(_ROWS, 2)).astype(np.float32),
        "raw": np.array([b"a\0", b"b"] * (_ROWS // 2), object),
    }
    return tf.data.Dataset.from_tensor_slices((features, np.zeros(_ROWS, np.int64))).batch(16)


def one_tensor():
    return rows().map(lambda features, label: (features["x"], label))


def sparse():
    return rows().map(lambda f, label: ({"s": tf.sparse.from_dense(f["x"])}, label))


def named():
    """Features and ops with the names of the variables of `with_names`."""
    w = tf.constant(np.zeros([_ROWS, 2], np.float32), name="w")
    x = tf.data.Dataset.from_tensor_slices({"x": w, "b": w})
    return tf.data.Dataset.zip((x, tf.data.Dataset.range(_ROWS))).batch(16)


def with_names(features, labels, mode):
    variables = [_v1.get_variable(name, [2]) for name in ("b", "w", "Cast")]
    answer = tf.linalg.matvec(features["x"] + features["b"], tf.add_n(variables))
    return answered(mode, answer)


def serving():
    text = _v1.placeholder(tf.string, [None], "text")
    return tf.estimator.export.ServingInputReceiver(
        {"x": tf.strings.to_number(tf.stack([text, text], 1)), "raw": text}, {"text": text}
    )


def given(name="rows", serving_input_fn=None):
    tree = {
        "name": "own",
        "data": {"input_fn": f"{HERE}:{name}", "serving_input_fn": serving_input_fn},
        "model": {"name": "m:model"},
        "train": {"steps": 1},
    }
    return OwnInput(config_file.validate(tree, "own.yaml"), topology.Task("chief", 0))


def model_fn(features, labels, mode):
    x = features["x"] if isinstance(features, dict) else features
    answer = tf.reduce_sum(x, axis=1) * _v1.get_variable("w", initializer=2.0)
    if isinstance(features, dict):
        # Only a text that is whole, its last byte included, has this length.
        answer += tf.cast(tf.strings.length(features["raw"]), tf.float32)
    return answered(mode, answer)


def answered(mode, answer):
    step = _v1.train.get_or_create_global_step()
    return tf.estimator.EstimatorSpec(
        mode,
        predictions={"answer": answer},
        loss=tf.reduce_mean(answer),
        train_op=_v1.assign_add(step, 1),
        export_outputs={"serving_default": tf.estimator.export.PredictOutput({"answer": answer})},
    )


@pytest.fixture
def trained(tmp_path):
    """Returns an Estimator after a step on an input, with its checkpoint."""

    def train(name="rows", model=model_fn):
        estimator = tf.estimator.Estimator(model, str(tmp_path / name))
        estimator.train(given(name).build_eval_input_fn("eval"), max_steps=1)
        return estimator, estimator.latest_checkpoint()

    return train


def exported(estimator, source, folder):
    receiver = source.serving_input_fn or own_exports.build_receiver(source)
    return estimator.export_saved_model(str(folder), receiver).decode()


def publish(estimator, checkpoint, source):
    run = RunFolder(estimator.model_dir)
    publisher = own_exports.InputFnPublisher(source.job, run, source)
    return publisher.publish(estimator, "final", checkpoint, step=1, metrics={})


def publisher_of(tmp_path, source):
    return own_exports.InputFnPublisher(source.job, RunFolder(str(tmp_path / "r")), source)


def test_a_checkpoint_of_a_changed_model_is_refused(trained):
    def changed(features, labels, mode):
        w = _v1.get_variable("w", initializer=[2.0, 3.0])
        return answered(mode, tf.reduce_sum(features["x"] * w, axis=1))

    estimator, checkpoint = trained()
    changed_estimator = tf.estimator.Estimator(changed, estimator.model_dir)
    with pytest.raises(shapes.OtherShapes, match=r"its w has the shape \[\], that of .* \[2\]"):
        publish(changed_estimator, checkpoint, given())


def test_a_model_is_checked_on_the_features_that_an_export_makes(tmp_path):
    """Not on the tensors it takes: a serving_input_fn makes the one of the other."""
    publisher = publisher_of(tmp_path, given(serving_input_fn=f"{HERE}:serving"))
    publisher.check_model(tf.estimator.Estimator(model_fn, str(tmp_path / "m")), evaluated=False)


def test_a_model_that_could_not_be_exported_is_refused_before_it_is_trained(tmp_path):
    def without_answers(features, labels, mode):
        return features["none of these"]

    with pytest.raises(errors.UsageError, match=r"^model_fn in mode 'infer': KeyError: 'none of "):
        publisher_of(tmp_path, given()).check_model(
            tf.estimator.Estimator(without_answers, str(tmp_path / "m")), evaluated=False
        )


class Told:
    """A reporter that keeps what it is told of."""

    def __init__(self):
        self.what = []

    @contextlib.contextmanager
    def count_progress(self, what, folder=""):
        self.what.append(what)
        yield

    watch_folder = count_progress

    def add_note(self, text):
        pass


def test_each_part_of_an_export_is_reported_as_progress(trained):
    """A large one takes longer than the watchdog waits without any."""
    estimator, checkpoint = trained()
    source, told = given(), Told()
    run = RunFolder(estimator.model_dir)
    publisher = own_exports.InputFnPublisher(source.job, run, source, reporter=told)
    publisher.publish(estimator, "final", checkpoint, step=1, metrics={})
    assert told.what == [
        "writing the model",
        "checking the exported model",
        "reading checksums",
        "publishing the model",
    ]


def test_variables_may_have_the_names_of_features_and_of_ops_of_the_input(trained):
    estimator, checkpoint = trained("named", with_names)
    published = publish(estimator, checkpoint, given("named"))
    assert sorted(own_exports.read_inputs(published.path)) == ["b", "x"]


def test_an_export_with_variables_that_were_not_trained_is_refused(trained):
    def grown(features, labels, mode):
        for name in ("late", "later"):
            _v1.get_variable(name, [])
        return model_fn(features, labels, mode)

    estimator, checkpoint = trained()
    other = tf.estimator.Estimator(grown, estimator.model_dir)
    with pytest.raises(
        errors.ModelError,
        match=r"^export of step 1: model_fn in mode 'infer' has variables that were not trained "
        r"\(late, later\); its variables must have the same names in every mode\. Nothing was",
    ):
        publish(other, checkpoint, given())


@pytest.mark.parametrize("name", ["rows", pytest.param("one_tensor", marks=pytest.mark.slow)])
def test_rows_are_answered_as_by_the_estimator(trained, tmp_path, name):
    estimator, checkpoint = trained(name)
    folder = exported(estimator, given(name), tmp_path / "export")
    told = own_exports.check(given(name), estimator, checkpoint, folder=folder)
    assert told.startswith(f"export of step 1: {_ROWS} rows of the examples to evaluate are")


def test_a_model_that_answers_otherwise_is_not_published(trained, tmp_path):
    estimator, checkpoint = trained()
    folder = exported(estimator, given(), tmp_path / "export")
    other = tf.estimator.Estimator(
        lambda features, labels, mode: model_fn(
            {**features, "x": features["x"] * 1.01}, labels, mode
        ),
        estimator.model_dir,
    )
    with pytest.raises(
        errors.ModelError, match=rf"Estimator\.predict differ on \d+ of {_ROWS} rows"
    ):
        own_exports.check(given(), other, checkpoint, folder=folder)


def test_a_model_whose_answers_depend_on_the_batch_is_not_published(trained, tmp_path):
    def centred(features, labels, mode):
        x = features["x"] - tf.reduce_mean(features["x"])
        return model_fn({**features, "x": x}, labels, mode)

    estimator, checkpoint = trained()
    other = tf.estimator.Estimator(centred, estimator.model_dir)
    folder = exported(other, given(), tmp_path / "export")
    with pytest.raises(
        errors.ModelError,
        match=r"^export of '.*': the model's answers to a row depend on the other rows of its "
        r"batch \(answer of row \d+: ",
    ):
        own_exports.check(given(), other, checkpoint, folder=folder)


@pytest.mark.slow
def test_inputs_of_its_own_are_not_compared_and_that_is_reported(trained, tmp_path):
    estimator, checkpoint = trained()
    source = given(serving_input_fn=f"{HERE}:serving")
    folder = exported(estimator, source, tmp_path / "export")
    assert own_exports.check(source, estimator, checkpoint, folder=folder) == (
        "export of step 1: its answers were not compared with Estimator.predict, because "
        "data.serving_input_fn takes text, which the examples do not have (x, raw)"
    )


def test_a_sparse_feature_needs_a_serving_input_fn():
    with pytest.raises(errors.UsageError, match=r"feature 's' is .*give data.serving_input_fn"):
        own_exports.build_receiver(given("sparse"))
