"""Settings that come from statistics, against what NumPy finds in the values themselves."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import errors
from pipeline.records import feature_plan, manifest
from tests.pipeline.feature_tables import DELAY, TIME, contents, make, statistics


def _plan(features=None, label=None, **others):
    job = make(features, label, **others)
    return feature_plan.plan(job, contents(job))


def _steps(name, *steps):
    return _plan({name: {"steps": list(steps)}}).features[0]


def test_z_score_of_a_column_is_exact():
    step = _steps("time", "z_score").steps[0]
    assert step.mean == pytest.approx(TIME.mean())
    assert step.deviation == pytest.approx(TIME.std())


def test_missing_values_are_filled_with_the_mean():
    _, step = (planned := _steps("delay", "missing", "z_score")).steps
    assert planned.steps[0].fill == pytest.approx(DELAY.mean())
    assert np.isnan(planned.steps[0].stand_in)
    assert step.mean == pytest.approx(DELAY.mean())


_INFINITE = {"type": "float32", "missing": "allow", "max": float("inf")}


def _of_infinite(*steps):
    job = make({"delay": {"steps": list(steps)}}, columns={"delay": _INFINITE})
    made = contents(job)
    train = made.statistics["train"]
    delay = train.columns["delay"].model_copy(update={"not_finite": 3})
    train = train.model_copy(update={"columns": {**train.columns, "delay": delay}})
    return feature_plan.plan(job, made.model_copy(update={"statistics": {"train": train}}))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["missing", "z_score"], "features.delay: z_score: is not defined at inf, which occurs in"),
        (["missing", {"cycle": {"period": 7}}], "features.delay: cycle: is not defined at inf, "),
        (["missing"], "features.delay: its column has infinite values; give it a clip step"),
    ],
)
def test_a_feature_of_infinite_values_needs_a_clip(steps, message):
    with pytest.raises(errors.UsageError, match=message):
        _of_infinite(*steps)
    fine = _of_infinite("missing", {"clip": {"max": 20}}, "z_score").features[0]
    assert np.isfinite(fine.points[-1].others).all()
    assert _of_infinite("missing", {"buckets": {"count": 4}}).features[0].ids == 4


def test_whole_numbers_are_filled_with_a_whole_number():
    assert _steps("seats", "missing").steps[0].fill == round(np.arange(100).mean())
    assert _steps("seats", "missing").steps[0].stand_in == 0
    fill = _steps("seats", {"missing": {"fill": 1.0}}).steps[0].fill
    assert (fill, type(fill)) == (1, int)


def test_statistics_follow_the_values():
    """Through clip and log1p too, of which the manifest knows nothing."""
    fill = {"missing": {"fill": 0.0}}
    planned = _steps("delay", fill, {"clip": {"min": 0, "max": 15}}, "log1p", "z_score")
    values = np.log1p(DELAY.clip(0, 15))
    assert planned.steps[-1].mean == pytest.approx(values.mean(), rel=0.01)
    assert planned.steps[-1].deviation == pytest.approx(values.std(), rel=0.01)


def test_clock_moves_extremes_and_quantiles():
    minutes = TIME // 100 * 60 + TIME % 100
    step = _steps("time", "clock", "min_max").steps[-1]
    assert (step.min, step.max) == (minutes.min(), minutes.max())


def test_quantile_buckets_hold_as_many_each():
    planned = _steps("time", {"buckets": {"count": 8}})
    assert planned.ids == 8
    counts = np.bincount(np.digitize(TIME, planned.steps[0].boundaries), minlength=8)
    assert counts.min() > 100
    assert counts.max() < 150


def test_buckets_whose_boundaries_mostly_coincide_are_refused():
    job = make({"seats": {"steps": [{"buckets": {"count": 24}}]}})
    made = contents(job)
    flat = {
        name: column.model_copy(update={"quantiles": (0.0,) * 99 + (3.0, 5.0)})
        for name, column in made.statistics["train"].columns.items()
    }
    train = made.statistics["train"].model_copy(update={"columns": flat})
    made = made.model_copy(update={"statistics": {"train": train}})
    with pytest.raises(
        errors.UsageError,
        match=r"features\.seats: buckets: only 1 of the 23 boundaries between 24 buckets are "
        r"different, because few values make up most rows\. Set count: 2, or give boundaries",
    ):
        feature_plan.plan(job, made)


def test_given_settings_are_kept():
    step = _steps("time", {"z_score": {"mean": 1.0, "deviation": 2.0}}).steps[0]
    assert (step.mean, step.deviation) == (1.0, 2.0)
    planned = _steps("time", {"buckets": {"boundaries": [600, 1200]}})
    assert (planned.steps[0].boundaries, planned.ids) == ((600, 1200), 3)


def test_a_column_that_is_always_the_same_becomes_zero():
    job = make({"seats": {"steps": ["z_score"]}, "time": {"steps": ["min_max"]}})
    made = contents(job)
    flat = {
        name: column.model_copy(update={"variance": 0.0, "quantiles": (5.0,) * 101})
        for name, column in made.statistics["train"].columns.items()
    }
    made = made.model_copy(
        update={
            "statistics": {"train": made.statistics["train"].model_copy(update={"columns": flat})}
        }
    )
    z_score, min_max = (f.steps[0] for f in feature_plan.plan(job, made).features)
    assert z_score.deviation == 1.0
    assert (min_max.min, min_max.max) == (5.0, 6.0)


def test_vocabularies_come_from_the_statistics_or_the_allowed_values():
    assert _steps("carrier", "vocabulary").steps[0].values == ("UA", "AA", "DL")
    assert _steps("carrier", {"vocabulary": {"oov": 3}}).ids == 6
    # Listed whole, though none is declared; and what is allowed is all there is.
    assert _steps("day", "vocabulary").steps[0].values == ("a", "b")
    assert _steps("origin", "vocabulary").steps[0].values == ("EWR", "JFK", "LGA")


@pytest.mark.parametrize(
    ("name", "steps", "message"),
    [
        (
            "tail",
            ["vocabulary"],
            r"^features\.tail: vocabulary needs all values, and the manifest does not have that; "
            r"set values, or add vocabulary: \{\} to the column in the config and preprocess ",
        ),
        (
            "day",
            [{"date": {"part": "hour"}}, "z_score"],
            r"features\.day: z_score needs the mean, not known after date; set mean and deviation, "
            r"or put z_score before date",
        ),
        (
            "weight",
            ["min_max"],
            "min_max needs percentiles, and .* does not have that; set min and max",
        ),
        ("weight", [{"buckets": {"count": 3}}], "does not have that; set boundaries"),
        (
            "delay",
            [{"missing": {"fill": 0}}, "log1p"],
            "log1p: is not defined at -.*, which occurs in the data; put",
        ),
    ],
)
def test_statistics_that_are_absent(name, steps, message):
    with pytest.raises(errors.UsageError, match=message):
        _steps(name, *steps)


def test_only_columns_in_use_are_read():
    plan = _plan({"time": {"steps": ["z_score"]}}, {"weight": "weight"})
    assert set(plan.columns) == {"time", "late", "weight"}
    assert len(_plan().columns) == 10


def test_callers_of_the_model_feed_neither_label_nor_a_weight_that_is_no_feature():
    features = {"time": {"steps": [{"clip": {"min": 0}}]}}
    job = make(features, label={"weight": "weight"})
    assert list(feature_plan.select_serving_columns(job)) == ["time"]
    both = make({**features, "weight": {}}, label={"weight": "weight"})
    assert list(feature_plan.select_serving_columns(both)) == ["time", "weight"]
    everything = feature_plan.select_serving_columns(make())
    assert len(everything) == len(make().data.columns) - 1
    assert "late" not in everything


def test_shapes_and_ids():
    plan = _plan(
        {
            "picture": {"steps": [{"resize": {"height": 8, "width": 9}}, "scale"]},
            "x": {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 50}}]},
            "day": {"steps": [{"ngrams": {"buckets": 70}}]},
            "delay": {"steps": [{"missing": {"fill": 1, "indicator": True}}]},
        }
    )
    found = {f.name: (f.kind, f.ids, f.shape, f.indicator) for f in plan.features}
    assert found == {
        "picture": ("image", None, (8, 9, 3), None),
        "x": ("ids", 50, (), None),
        "day": ("bag", 70, (), None),
        "delay": ("number", None, (), "delay_missing"),
    }


def test_label_by_vocabulary():
    columns = {"late": {"type": "string"}, "other": {"type": "int64"}}
    job = make(
        label={"vocabulary": True}, columns={"late": {"type": "string", "allowed": ["n", "y"]}}
    )
    assert feature_plan.plan(job, contents(job)).label.values == ("n", "y")
    job = make(label={"vocabulary": True}, columns=columns)
    with pytest.raises(errors.UsageError, match=r"add vocabulary: \{\} to data\.columns\.late"):
        feature_plan.plan(job, contents(job))


def test_balanced_classes_weigh_the_same():
    """Of a label by threshold: of the values 0, 10, 20, 30 there are 1, 4, 2 and 2 parts."""
    weights = dict(_plan(label={"threshold": 15, "balanced": True}).label.class_weights)
    assert weights[0] * 2.5 == pytest.approx(weights[1] * 2)
    assert (weights[0] * 2.5 + weights[1] * 2) / 4.5 == pytest.approx(1)


def test_classes_of_a_threshold_that_float64_does_not_tell_apart():
    job = make(label={"threshold": 2.0**60, "balanced": True})
    made = contents(job)
    train = made.statistics["train"].model_copy(
        update={"class_weights": ((2**60 - 1, 1.0), (2**60, 1.0), (2**60 + 1, 1.0))}
    )
    made = made.model_copy(update={"statistics": {"train": train}})
    weights = dict(feature_plan.plan(job, made).label.class_weights)
    assert weights == pytest.approx({0: 0.75, 1: 1.5})


def _train(values):
    """A manifest whose column `weight` has these values."""
    made = contents(make())
    train = manifest.Statistics(columns={"weight": statistics(values)})
    return made.model_copy(update={"statistics": {"train": train}})


def test_a_clip_that_changes_nothing_leaves_mean_and_deviation_of_a_long_tail():
    """Straight lines between percentiles would make the deviation seven times as large."""
    x = np.random.default_rng(1).lognormal(0, 2, 100_000)
    for limit in (-1.0, 0.01):
        job = make({"weight": {"steps": [{"clip": {"min": limit}}, "z_score"]}})
        step = feature_plan.plan(job, _train(x)).features[0].steps[-1]
        assert step.mean == pytest.approx(x.clip(limit).mean(), rel=1e-3)
        assert step.deviation == pytest.approx(x.clip(limit).std(), rel=1e-3)


def test_a_column_that_is_always_the_same_becomes_zero_behind_other_steps_too():
    """What rounding leaves of its deviation would blow up the noise of float32."""
    for first in ("log1p", "min_max", {"clip": {"max": 4.7}}):
        job = make({"weight": {"steps": [first, "z_score"]}})
        step = feature_plan.plan(job, _train(np.full(1000, 5.3))).features[0].steps[-1]
        assert step.deviation == 1.0


def _random_step(rng, x):
    low, high = (float(q) for q in np.quantile(x, sorted(rng.uniform(0, 1, 2))))
    written = {
        "clip": {"clip": {"min": low, "max": high}},
        "only top": {"clip": {"max": float(np.quantile(x, 0.99))}},
        "nothing": {"clip": {"min": float(x.min()) - 1}},
        "log1p": "log1p" if x.min() > -0.9 else {"clip": {"min": 0}},
        "z_score": "z_score",
        "min_max": "min_max",
        "other": {"min_max": {"min": low - 1, "max": high + 1}},
    }
    return written[str(rng.choice(list(written)))]


@pytest.mark.parametrize("tail", [0.5, 2.0])
def test_statistics_through_random_chains(tail):
    """Against NumPy on the raw values; extremes exactly, moments about."""
    rng = np.random.default_rng(11)
    apart = []
    for _ in range(25):
        x = rng.lognormal(0, tail, 2_000)
        steps, y = [], x
        for _ in range(rng.integers(1, 4)):
            steps.append(_random_step(rng, y))
            job = make({"weight": {"steps": [*steps, "z_score", "min_max"]}})
            *made, z_score, min_max = feature_plan.plan(job, _train(x)).features[0].steps
            y = x
            for step in made:
                y = np.array([step.value(value) for value in y.tolist()])
        ends = ((y.min() - z_score.mean) / z_score.deviation, min_max.min)
        assert ends[0] == pytest.approx(ends[1], abs=1e-6 * (1 + abs(ends[0])))
        spread = y.std() or 1.0
        apart.append(max(abs(z_score.mean - y.mean()), abs(z_score.deviation - spread)) / spread)
    assert np.median(apart) < 0.01
    assert max(apart) < 0.2


def test_a_column_without_values_in_train_is_accepted():
    """It may have some only in rows without a label, which are dropped; a first config has it."""
    job = make({"delay": {"steps": ["missing", "z_score", {"piecewise": {"count": 4}}]}})
    made = contents(job)
    nothing = manifest.ColumnStatistics(count=0, missing=100)
    made.statistics["train"].columns["delay"] = nothing
    z_score = feature_plan.plan(job, made).features[0].steps[1]
    assert z_score.deviation > 0
