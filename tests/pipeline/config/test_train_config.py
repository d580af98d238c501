"""When training ends, or pauses."""

from __future__ import annotations

import pytest

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.records import epochs


def train(*settings):
    return config_file.load("mnist_mlp", settings).train


def test_a_pause_ends_training_and_changes_neither_its_length_nor_the_schedule():
    paused = train("train.steps=900", "train.pause_step=100")
    assert (paused.max_steps, paused.planned_steps) == (100, 100)
    assert paused.length == config.Length(900, 900)
    assert paused.pauses_at(100) and paused.pauses_at(101)  # asynchronous workers overshoot
    assert not paused.pauses_at(99) and not paused.pauses_at(900)


def test_a_pause_after_the_last_step_has_no_effect():
    later = train("train.steps=900", "train.pause_step=1000")
    assert later.max_steps == 900
    assert not later.pauses_at(900)


def test_a_pause_applies_to_epochs_once_their_steps_are_known():
    job = config_file.load(
        "mnist_mlp", ["train.steps=null", "train.epochs=1", "train.pause_step=100"]
    )
    assert job.train.planned_steps is None
    assert epochs.with_length(job, config.Length(900, 900)).train.max_steps == 100


def test_pause_step_must_be_positive():
    with pytest.raises(errors.UsageError, match=r"train\.pause_step: input should be greater than"):
        train("train.pause_step=0")


@pytest.mark.parametrize("hook", ["x", "module.Hook", "module:", "a b:Hook"])
def test_hooks_are_named_with_their_module(hook):
    text = rf"train\.hooks\.0: must look like 'package\.module:Hook', got '{hook}'$"
    with pytest.raises(errors.UsageError, match=text):
        train(f"train.hooks=[{hook!r}]")
