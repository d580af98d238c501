"""Which spaces are taken, and what is said of the others."""

from __future__ import annotations

import functools
import random

import pytest
import yaml

from pipeline import errors
from pipeline.config import config_file
from pipeline.tuning import space
from pipeline.tuning.space import Parameter

load = functools.partial(config_file.load, "flights")


def read(tmp_path, text):
    path = tmp_path / "space.yaml"
    path.write_text(text)
    return space.read(str(path), lambda settings: load(list(settings)))


def test_numbers_are_whole_or_not_as_the_key_is(tmp_path):
    rate, batch, dropout, units = read(
        tmp_path,
        "train.optimizer.learning_rate: {low: 1e-4, high: 1e-1, log: true}\n"
        "train.batch_size: {low: 64, high: 512, step: 64}\n"
        "model.params.dropout: {low: 0, high: 0.5}\n"
        "model.params.hidden_units: {choices: [[64], [128, 64]]}\n",
    )
    assert rate == Parameter(rate.key, low=1e-4, high=1e-1, log=True)
    assert batch == Parameter(batch.key, low=64, high=512, step=64, whole=True)
    assert (dropout.low, dropout.high, dropout.whole) == (0, 0.5, False)
    assert units.choices == ([64], [128, 64])


def test_a_key_of_fractions_between_whole_ends_is_not_whole(tmp_path):
    (found,) = read(tmp_path, "train.optimizer.weight_decay: {low: 0, high: 1}\n")
    assert not found.whole


def test_a_key_of_whole_numbers_between_ends_with_a_point_is_whole(tmp_path):
    (found,) = read(tmp_path, "train.batch_size: {low: 8.0, high: 64.0, step: 8}\n")
    assert found == Parameter(found.key, low=8, high=64, step=8, whole=True)
    assert all(type(one) is int for one in (found.low, found.high, found.step))


def test_the_last_step_may_end_below_the_high_end(tmp_path):
    (whole,) = read(tmp_path, "train.batch_size: {low: 10, high: 20, step: 3}\n")
    assert (whole.low, whole.high, whole.whole) == (10, 19, True)
    (fraction,) = read(tmp_path, "model.params.dropout: {low: 0.0, high: 0.5, step: 0.15}\n")
    assert (fraction.high, fraction.whole) == (0.45, False)
    assert fraction.round_value(0.15 + 0.15 + 0.15) == 0.45


def test_a_fraction_at_a_whole_end_moves_by_its_share(tmp_path):
    (rate,) = read(tmp_path, "train.optimizer.learning_rate: {low: 1e-2, high: 2, log: true}\n")
    moved = {rate.perturb(rate.high, random.Random(seed)) for seed in range(9)}
    assert moved == {1.6, 2.0}


@pytest.mark.parametrize(
    "given",
    [
        {"low": 0.0, "high": 0.5},
        {"low": -1, "high": 0},
        {"low": 1e-4, "high": 1.0, "log": True},
        {"low": 0, "high": 64, "step": 8},
        {"choices": [0, False, None]},
    ],
)
def test_the_plan_shows_values_as_the_file_gives_them(given):
    if "choices" in given:
        found = Parameter("a", choices=tuple(given["choices"]))
    else:
        found = Parameter("a", **given)
    assert found.to_json() == given


@pytest.mark.parametrize("value", [1e-5, 0.001234, 3, [128, 64], "adam", "1e-4", True, None])
def test_settings_are_read_back_as_they_were(value):
    (setting,) = space.settings({"a.b": value})
    key, _, text = setting.partition("=")
    assert (key, yaml.safe_load(text)) == ("a.b", value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; give keys of the config"),
        ("{}", "is empty; give keys of the config"),
        ("[1]", "must be a mapping of keys"),
        ("a: {low", "not valid YAML"),
        ("train.optimizer.learning_rat: {low: 1, high: 2}", "did you mean 'learning_rate'?"),
        ("trian.batch_size: {low: 1, high: 2}", "did you mean 'train'?"),
        ("train.batch_size.x: {low: 1, high: 2}", "has no keys below it"),
        ("train.batch_size: {low: 0, high: 2}", "train.batch_size=0: train.batch_size: input sho"),
        ("model.params.dropout: {low: 0.0, high: 1.5}", "model.params.dropout=1.5: model.params.d"),
        ("model.params.dropuot: {low: 0.0, high: 0.5}", "did you mean 'dropout'?"),
        ("train.optimizer.name: {choices: [adam, adan]}", "train.optimizer.name=adan: "),
        ("train.batch_size: 64", "train.batch_size: must be {low: 1e-4, high: 1e-1, log: true}"),
        ("train.batch_size: {lo: 1, high: 2}", "unknown key 'lo' (did you mean 'low'?)"),
        ("train.batch_size: {low: 1}", "missing key 'high'"),
        ("train.batch_size: {low: 5, high: 5}", "low must be below high, got 5 and 5"),
        ("train.batch_size: {low: x, high: 5}", "train.batch_size.low: must be a number, got 'x'"),
        (
            "train.batch_size: {low: 8.0, high: 64, step: 0.5}",
            "step: must be a whole number, got 0",
        ),
        ("train.batch_size: {low: 1, high: 5, step: 9}", "step: must be above 0 and at most 4"),
        ("model.params.dropout: {low: 0.0, high: 0.5, log: true}", "needs low above 0 and no step"),
        ("train.batch_size: {low: 1, high: 5, log: 1}", "log: must be true or false, got 1"),
        ("train.batch_size: {choices: []}", "choices: must be a list of values, got []"),
        ("train.batch_size: {choices: [64, 64]}", "a value is given twice"),
        ("train.batch_size: {choices: [64], low: 1}", "choices stand alone"),
        ("train.seed: {low: 1, high: 9}", "cannot be searched: it decides the order of records"),
        ("train.steps: {low: 1, high: 9}", "cannot be searched: the search decides how long"),
        ("data.shards.train: {low: 1, high: 9}", "cannot be searched: all trials are trained on"),
        ("data: {choices: [{}, {a: 1}]}", "data: cannot be searched: all trials are trained on"),
        ("eval: {choices: [{metric: auc}]}", "eval: cannot be searched: all trials are evaluated"),
        ("labels.a: {choices: [{}]}", "labels.a: cannot be searched: trials with different labels"),
        ("train: {choices: [{seed: 1}]}", "train: cannot be searched, because of train.seed: it"),
        (
            "model.params: {choices: [{}]}\nmodel.params.dropout: {low: 0.0, high: 0.5}",
            "model.params.dropout: is a part of model.params, which has values to try, too",
        ),
    ],
)
def test_bad_spaces_are_one_line(tmp_path, text, message):
    with pytest.raises(errors.UsageError) as raised:
        read(tmp_path, text)
    line = str(raised.value)
    assert message in line
    assert line.startswith(f"space '{tmp_path}/space.yaml'")
    assert "\n" not in line


def test_a_space_that_is_not_there_is_named():
    with pytest.raises(errors.UsageError, match=r"space 'no.yaml': cannot be read: No such file"):
        space.read("no.yaml", lambda settings: load(list(settings)))


@pytest.mark.parametrize(
    "parameter",
    [
        Parameter("a", low=1e-4, high=1e-1, log=True),
        Parameter("a", low=8, high=64, step=8, whole=True),
        Parameter("a", low=1, high=4, whole=True),
        Parameter("a", choices=("x", "y")),
    ],
)
def test_perturbed_values_stay_within_the_space(parameter):
    rng = random.Random(0)
    at = parameter.ends[0]
    seen = set()
    for _ in range(200):
        at = parameter.perturb(at, rng)
        assert (
            at in parameter.choices if parameter.choices else parameter.low <= at <= parameter.high
        )
        assert not parameter.step or (at - parameter.low) % parameter.step == 0
        assert type(at) is type(parameter.ends[0])
        seen.add(at)
    assert len(seen) > 1
