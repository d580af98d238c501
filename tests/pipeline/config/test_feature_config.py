"""How features are written, and what is refused of a single one."""

from __future__ import annotations

import math
import re

import pytest
import yaml

from pipeline import errors
from pipeline.config import config_file
from pipeline.steps import STEPS
from pipeline.steps.numbers import Clip, Log1p
from tests.pipeline.feature_tables import make


def test_short_and_long_forms_are_the_same():
    short = make({"delay": {"steps": [{"missing": {"fill": 0}}, "log1p", {"clip": {"max": 3}}]}})
    long = [{"step": "missing", "fill": 0}, {"step": "log1p"}, {"step": "clip", "max": 3}]
    assert short == make({"delay": {"steps": long}})
    assert short.features["delay"].steps[1:] == (Log1p(), Clip(max=3))
    assert make({"time": {"steps": "clock"}}).features["time"].steps[0].step == "clock"


def test_a_stored_config_is_the_same_again():
    job = make(
        {
            "route": {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 50}}]},
            "time": {"steps": ["clock", {"buckets": {"count": 4}}], "embedding": 3},
        },
        {"threshold": 15},
    )
    assert config_file.validate(yaml.safe_load(config_file.dump(job)), "stored") == job


def test_without_inputs_it_is_the_column_of_its_name():
    job = make({"time": {"steps": ["z_score"]}, "t": {"of": "time", "steps": ["z_score"]}})
    assert job.features["time"].inputs("time") == job.features["t"].inputs("t") == ("time",)


@pytest.mark.parametrize("steps", [["clock", "z_score"], [{"cross": {"buckets": 9}}]])
def test_an_input_is_named_once(steps):
    with pytest.raises(
        errors.UsageError, match=r"features\.x\.of: 'time' is named 2 times; name it"
    ):
        make({"x": {"of": ["time", "time"], "steps": steps}})


def test_every_step_says_what_it_takes():
    assert all(step.takes for step in STEPS.values())


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["zscore"], r"no step is called 'zscore' \(did you mean 'z_score'\?\); known: augment, "),
        ([{"clip": {}}], r"features\.time\.steps\.0\.clip: needs min, max, or both"),
        ([{"clip": {"min": 3, "max": 1}}], "min 3 is above max 1"),
        ([{"min_max": {"min": 3, "max": 3}}], "min 3 is not below max 3"),
        (
            [{"clip": {"mn": 3}}],
            r"unknown key 'features\.time\.steps\.0\.clip\.mn' \(did you mean 'min'",
        ),
        ([{"clip": 3}], "clip: its settings must be a mapping, got 3"),
        ([{"buckets": {}}], "needs count or boundaries"),
        ([{"buckets": {"boundaries": [3, 1]}}], r"boundaries must rise, got \[3\.0, 1\.0\]"),
        ([{"hash": {}}], r"missing key 'features\.time\.steps\.0\.hash\.buckets'"),
        (
            ["clock", {"date": {"part": "hours"}}],
            r"steps\.1\.date\.part: input should be 'year', 'mo",
        ),
    ],
)
def test_bad_steps_are_explained(steps, message):
    with pytest.raises(errors.UsageError, match=message):
        make({"time": {"steps": steps}})


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"threshold": 1, "vocabulary": True}, "threshold and vocabulary exclude each other"),
        ({"weight": "weight", "balanced": True}, "weight and balanced exclude each other"),
        ({"threshold": float("inf")}, "threshold: input should be a finite number"),
        ({"treshold": 1}, r"unknown key 'label\.treshold' \(did you mean 'threshold'\?\)"),
    ],
)
def test_bad_labels_are_explained(label, message):
    with pytest.raises(errors.UsageError, match=message):
        make(label=label)


@pytest.mark.parametrize("given", [0, -3, "big", 2.5, "16"])
def test_what_is_no_width_of_vectors(given):
    ids, text = {"steps": ["vocabulary"]}, re.escape(f"or auto or one_hot, got {given!r}")
    text = rf"^config 'test': features\.carrier\.embedding: must be a width of 1 or more, {text}$"
    with pytest.raises(errors.UsageError, match=text):
        make({"carrier": {**ids, "embedding": given}})
    text = rf"embedding\.size: must be a width of 1 or more, or auto, got {re.escape(repr(given))}$"
    with pytest.raises(errors.UsageError, match=text):
        make({"carrier": {**ids, "embedding": {"size": given}}})


@pytest.mark.parametrize(
    "step",
    [
        {"z_score": {"mean": math.nan, "deviation": 1}},
        {"min_max": {"min": math.nan, "max": 1}},
        {"piecewise": {"edges": [1, math.inf]}},
    ],
)
def test_numbers_of_steps_are_finite(step):
    with pytest.raises(errors.UsageError, match=r"features\.delay\.steps.*finite number, got "):
        make({"delay": {"steps": [step]}})


@pytest.mark.parametrize(
    ("of", "step"), [("tail", "hash"), (["origin", "carrier"], "cross"), ("day", "ngrams")]
)
def test_one_bucket_tells_nothing_apart(of, step):
    feature = {"of": of, "steps": [{step: {"buckets": 1}}]}
    with pytest.raises(errors.UsageError, match=rf"{step}\.buckets: .* equal to 2, got 1"):
        make({"x": feature})
