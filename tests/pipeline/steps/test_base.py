"""What a class of a step must have, and what is known of the statistics behind it."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.records import feature_plan
from pipeline.steps import STEPS, base, numbers
from pipeline.steps.base import NUMBERS, Step, Values
from tests.pipeline.feature_tables import TIME, contents, make

HUNDREDTHS = np.linspace(0, 1, 101)
SETTINGS = {
    "clip": [{"min": 300, "max": 1800}, {"min": 300}, {"max": 0.5}],
    "clock": [{"part": "hour"}, {"part": "minute_of_day"}],
    "log1p": [{}],
    "min_max": [{"min": -3.0, "max": 1000.0}],
    "z_score": [{"mean": 1000.0, "deviation": 7.5}],
}


def _known(values: np.ndarray, kind: base.Kind = "number") -> Values:
    percentiles = tuple(np.quantile(values, HUNDREDTHS).tolist())
    mean, variance = float(values.mean()), float(values.var())
    return Values(kind, (), percentiles=percentiles, mean=mean, variance=variance)


class Root(Step):
    """A step as a user writes it who thinks of nothing but its op."""

    takes = NUMBERS
    gives = "number"

    def apply(self, x):
        return tf.sqrt(tf.cast(x, tf.float32))


class Negated(Root):
    """Turns the order round."""

    def apply(self, x):
        return -tf.cast(x, tf.float32)

    def statistics_after(self):
        return "linear"

    def value(self, x):
        return -x


class Wrong(Negated):
    """Says that it keeps the order, and does not."""

    def apply(self, x):
        return tf.math.mod(tf.cast(x, tf.float32), 7)

    def statistics_after(self):
        return "monotonic"

    def value(self, x):
        return x % 7


class Curved(Negated):
    """Claims to be linear, and is not."""

    def apply(self, x):
        return tf.cast(x, tf.float32) ** 2

    def statistics_after(self):
        return "linear"

    def value(self, x):
        return x**2


class Sum(Step):
    """Of several inputs."""

    takes = NUMBERS
    gives = "number"
    several = True

    def apply(self, x):
        return tf.add_n([tf.cast(one, tf.float32) for one in x])


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """A module of the user's own that has these classes."""
    module = types.ModuleType("own_steps")
    for step in (Root, Negated, Wrong, Curved, Sum):
        setattr(module, step.__name__, step)
    monkeypatch.setitem(sys.modules, "own_steps", module)


@pytest.mark.parametrize("later", ["z_score", "min_max", {"buckets": {"count": 4}}])
def test_what_needs_statistics_is_refused_behind_a_step_that_does_not_say(later):
    with pytest.raises(
        errors.UsageError,
        match=r"features\.time: \w+ needs .*, not known after own_steps:Root; set .*, or put \w+ "
        r"before own_steps:Root$",
    ):
        make({"time": {"steps": ["own_steps:Root", {"clip": {"min": 0}}, later]}})


def test_with_its_settings_a_step_needs_no_statistics():
    steps = ["own_steps:Root", {"z_score": {"mean": 1, "deviation": 2}}]
    job = make({"time": {"steps": steps}})
    [planned] = feature_plan.plan(job, contents(job)).features
    assert planned.kind == "number" and planned.points[1].percentiles is None


def test_nothing_is_known_behind_features_made_of_such_features_either():
    features = {
        "a": {"of": "time", "steps": ["own_steps:Root"]},
        "b": {"of": "a", "steps": ["z_score"]},
    }
    with pytest.raises(errors.UsageError, match=r"features\.b: z_score needs the mean, not known"):
        make(features)


def test_the_order_may_be_turned_round():
    job = make({"time": {"steps": ["own_steps:Negated", "z_score", {"buckets": {"count": 4}}]}})
    _, z_score, buckets = feature_plan.plan(job, contents(job)).features[0].steps
    assert z_score.mean == pytest.approx(-TIME.mean())
    assert z_score.deviation == pytest.approx(TIME.std())
    counts = np.bincount(np.digitize((TIME.mean() - TIME) / TIME.std(), buckets.boundaries))
    assert counts.min() > 200


def test_what_claims_too_much_is_not_believed():
    """Neither in the order of values nor in a line."""
    job = make({"time": {"steps": ["own_steps:Wrong", "z_score"]}})
    with pytest.raises(errors.UsageError, match="not known after own_steps:Wrong, which does not"):
        feature_plan.plan(job, contents(job))
    x = np.random.default_rng(3).uniform(0, 10, 10_000)
    found = base.derive_values(Curved(), _known(x))
    assert found.mean == pytest.approx((x**2).mean(), rel=0.01)
    assert found.variance == pytest.approx((x**2).var(), rel=0.01)


def test_nothing_is_known_of_several_inputs():
    features = {"x": {"of": ["time", "seats"], "steps": ["own_steps:Sum", "z_score"]}}
    with pytest.raises(errors.UsageError, match="not known after own_steps:Sum"):
        make(features)
    with pytest.raises(errors.UsageError, match="own_steps:Sum takes several inputs, got one"):
        make({"time": {"steps": ["own_steps:Sum"]}})
    with pytest.raises(errors.UsageError, match="takes several inputs, so it must come first"):
        make({"time": {"steps": ["log1p", "own_steps:Sum"]}})


@pytest.mark.parametrize("name", STEPS)
def test_statistics_of_each_step_are_those_of_what_its_op_makes(name):
    """Of random numbers, mapped by TensorFlow."""
    x = np.random.default_rng(5).integers(0, 24, 50_000) * 100.0 + 30
    kind = "number" if "number" in STEPS[name].takes else "integer"
    for settings in SETTINGS.get(name, []):
        step = STEPS[name](**settings)
        dtype = tf.float32 if kind == "number" else tf.int64
        y = step.apply(tf.constant(x, dtype)).numpy().astype(np.float64)
        found = base.derive_values(step, _known(x, kind))
        spread = max(float(np.ptp(y)), 1e-6)
        wanted = np.quantile(y, HUNDREDTHS)
        np.testing.assert_allclose(found.percentiles, wanted, atol=1e-5 * spread, rtol=1e-5)
        exact = step.statistics_after() == "linear"
        share = 1e-5 if exact else 0.02
        assert found.mean == pytest.approx(y.mean(), abs=share * spread)
        assert found.variance**0.5 == pytest.approx(y.std(), abs=share * spread)
    if name not in SETTINGS and name != "missing":
        assert STEPS[name].statistics_after is Step.statistics_after, (
            f"{name} says what is known behind it: add its settings to SETTINGS above"
        )


def test_a_subclass_with_an_op_of_its_own_inherits_no_claims():
    class Doubled(numbers.Clip):
        def apply(self, x):
            return 2 * super().apply(x)

    assert Doubled(min=0).statistics_after() == "forgotten"
    assert numbers.Clip(min=0).statistics_after() == "monotonic"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"apply": lambda self, x: x}, "a step needs takes, the kinds of values it takes"),
        (
            {"takes": ("int64",), "apply": lambda self, x: x},
            r"takes is \('int64',\), kinds are number, integer, text",
        ),
        (
            {"takes": NUMBERS, "gives": "float32", "apply": lambda self, x: x},
            "gives, the kind it returns: .* kinds are number",
        ),
        ({"takes": NUMBERS}, "a step needs apply"),
        (
            {"takes": NUMBERS, "gives": "ids", "apply": lambda self, x: x},
            "a step that gives ids needs categories",
        ),
    ],
)
def test_incomplete_classes_are_refused(body, message):
    with pytest.raises(TypeError, match=message):
        type(Step)("Half", (Step,), {"__module__": __name__, **body})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"statistics_after": lambda self: "linear"}, r"'linear', and that needs value\(self, x\)"),
        ({"statistics_after": lambda self: "kept"}, "must return one of forgotten, .* got 'kept'"),
    ],
)
def test_contradictory_statistics_after_is_refused(body, message, monkeypatch):
    body = {"takes": NUMBERS, "apply": lambda self, x: x, **body}
    step = type(Step)("Half", (Step,), {"__module__": "own_steps", **body})
    monkeypatch.setattr(sys.modules["own_steps"], "Half", step, raising=False)
    with pytest.raises(errors.UsageError, match=f"features.time: own_steps:Half: .*{message}"):
        make({"time": {"steps": ["own_steps:Half"]}})


@pytest.mark.parametrize(
    ("columns", "steps", "name"),
    [
        ({}, [{"clip": {"max": 9}}, "missing"], "clip"),
        ({"day": {"type": "string", "missing": "allow"}}, [{"date": {"part": "day"}}], "date"),
    ],
)
def test_missing_behind_steps_that_change_what_stands_for_it(columns, steps, name):
    """It would take real values for missing ones."""
    of = "day" if columns else "seats"
    steps = [*steps, "missing"] if columns else steps
    with pytest.raises(
        errors.UsageError, match=f"missing must come before {name}: after that step"
    ):
        make({"x": {"of": of, "steps": steps}}, columns=columns)


def test_what_fills_gaps_must_have_a_value_in_later_steps():
    job = make({"delay": {"steps": [{"missing": {"fill": -5}}, {"clip": {"min": -20}}, "log1p"]}})
    made = contents(job)
    train = made.statistics["train"]
    positive = train.columns["delay"].model_copy(update={"quantiles": (0.0, 1.0, 2.0)})
    train = train.model_copy(update={"columns": {**train.columns, "delay": positive}})
    made = made.model_copy(update={"statistics": {"train": train}})
    with pytest.raises(errors.UsageError, match=r"log1p: is not defined at -5, which occurs"):
        feature_plan.plan(job, made)
