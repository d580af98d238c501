"""An input_fn of the user's own: how it is called, and what it must return."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file
from trainer.input import ready_times
from trainer.input.own_input import OwnInput

HERE = __name__
CALLS = []


def rows(mode, params, input_context):
    CALLS.append((mode, params, input_context))
    dataset = tf.data.Dataset.range(4).map(lambda x: ({"x": x}, x)).batch(params["batch_size"])
    return dataset.repeat() if mode == "train" else dataset


def without_arguments():
    return rows("eval", {"batch_size": 2}, None)


def wants_more(mode, parms):
    return None


def endless():
    return without_arguments().repeat()


def a_list():
    return [1]


def features_alone():
    return without_arguments().map(lambda features, label: features)


def job(name="rows", *overrides):
    tree = {
        "name": "own",
        "data": {"input_fn": f"{HERE}:{name}"},
        "model": {"name": "m:model", "params": {"units": 3}},
        "train": {"steps": 10, "batch_size": 8},
        "eval": {"batch_size": 50},
    }
    found = config_file.validate(tree, "own.yaml")
    return found.model_copy(update={"cluster": overrides[0]}) if overrides else found


def test_each_process_knows_its_mode_params_and_place():
    CALLS.clear()
    addresses = {"chief": ("h:1",), "worker": ("h:2", "h:3"), "ps": ("h:4",)}
    task = topology.Task("worker", 1, addresses)
    given = OwnInput(job(), task)
    with tf.Graph().as_default():
        given.build_train_input_fn()()
        given.build_eval_input_fn("eval")()
    (mode, params, context), (other_mode, other_params, alone) = CALLS
    assert (mode, params) == ("train", {"units": 3, "batch_size": 8})
    assert (context.num_input_pipelines, context.input_pipeline_id) == (3, 2)
    assert (other_mode, other_params) == ("eval", {"units": 3, "batch_size": 50})
    assert (alone.num_input_pipelines, alone.input_pipeline_id) == (1, 0)


def test_it_may_take_no_arguments():
    with tf.Graph().as_default():
        OwnInput(job("without_arguments"), topology.Task("chief", 0)).build_eval_input_fn("eval")()


def test_a_right_one_passes_the_check_and_reads_nothing():
    OwnInput(job(), topology.Task("chief", 0)).check()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wants_more", "takes 'parms'; it may take mode, params, input_context (did you mean"),
        ("absent", "has no 'absent'"),
        ("CALLS", "which cannot be called"),
        ("endless", "its examples of mode 'eval' have no end"),
        ("a_list", r"returned [1]; it must return a tf.data.Dataset of (features, labels)"),
        ("features_alone", "its dataset has elements {'x'"),
    ],
)
def test_others_are_refused_before_training(name, text):
    with pytest.raises(errors.UsageError, match=re.escape(text)) as caught:
        OwnInput(job(name), topology.Task("chief", 0)).check()
    assert str(caught.value).startswith("data.input_fn ")


def test_a_module_that_does_not_exist_is_named():
    tree = job().model_dump(mode="json")
    tree["data"]["input_fn"] = "no_such_module:rows"
    with pytest.raises(errors.UsageError, match=r"data.input_fn .*no module 'no_such_module'"):
        OwnInput(config_file.validate(tree, "c"), topology.Task("chief", 0))


def test_the_examples_to_evaluate_are_known_by_the_name_of_the_function():
    one, same, other = (
        OwnInput(job(name), topology.Task("chief", 0)).identify("eval")
        for name in ("rows", "rows", "endless")
    )
    assert one == same != other


def test_batches_come_with_when_they_were_ready_if_asked_for():
    given = OwnInput(job(), topology.Task("chief", 0))
    with tf.Graph().as_default():
        plain, _ = given.build_train_input_fn()().element_spec
        timed, _ = given.build_train_input_fn(timed=True)().element_spec
    assert isinstance(timed, ready_times.TimedFeatures)
    assert timed.features == plain
