"""A few numbers very far from all others are named, and do not make the others alike."""

from __future__ import annotations

import random

import pytest
import yaml

from preprocessing.schema_inference import heuristics, outliers, write_config
from tests.preprocessing.schema_inference.surveyed import survey_values


def _normal(count=4000, mean=0.0):
    drawn = random.Random(1)
    return [f"{drawn.gauss(mean, 1):.4f}" for _ in range(count)]


@pytest.mark.parametrize("limits", [{}, {"most": 1000}])
@pytest.mark.parametrize("odd", [["1e30"], ["-1e30"], ["1e30", "1e12"], ["99999"] * 3])
def test_outliers_are_clipped_by_the_deviation_of_the_others(odd, limits):
    found = survey_values([*_normal(), *odd], **limits)
    known = outliers.find(found)
    assert known.rows == (None if limits else len(odd))
    assert known.farthest == pytest.approx(float(odd[0]))
    assert abs(known.mean) < 0.3 and 0.8 < known.deviation < 1.2
    made = heuristics.suggest_column("a", found, 4000)
    ((limit,),) = [list(made.steps[0]["clip"].values())]
    assert abs(limit) == pytest.approx(8, rel=0.25) and (limit < 0) == (float(odd[0]) < 0)


def test_quantiles_are_of_clipped_numbers():
    made = heuristics.suggest_column("a", survey_values([*_normal(12_000), "1e30"]), 12_001)
    assert list(made.parts["a_quantiles"][0]["clip"]) == ["max"]


@pytest.mark.parametrize(
    "values",
    [
        _normal(),
        [f"{random.Random(n).lognormvariate(0, 1.5):.4f}" for n in range(4000)],
        [0] * 3990 + [1] * 10,  # a rare flag
        [0] * 3900 + list(range(900, 1000)),
        [*range(4000), *[10**9] * 50],  # one in eighty is no slip
        ["7"] * 300,
        list(range(50)),
        ["abc"] * 50,
        ["inf", "1", "2"],
    ],
)
@pytest.mark.parametrize("limits", [{}, {"most": 20}])
def test_other_columns_have_none(values, limits):
    assert outliers.find(survey_values(values, **limits)) is None


def test_limits_far_from_zero_keep_the_values_apart():
    found = survey_values([*_normal(mean=1e6), "1000020"])
    ((limit,),) = [list(heuristics.suggest_column("a", found, 4001).steps[0]["clip"].values())]
    assert limit == pytest.approx(1e6 + 8, abs=1)


def test_the_column_is_named_and_so_is_the_label(tmp_path):
    values = [*_normal(400), "1e30"]
    rows = ["a,b,y", *(f"{a},{n % 5},{n / 7:.3f}" for n, a in enumerate(values))]
    (tmp_path / "t.csv").write_text("\n".join([*rows, ""]))
    for label, then in (
        ("y", "The config clips them; correct them, or leave them empty"),
        ("a", "Correct these rows, or remove them"),
    ):
        made = write_config.propose(str(tmp_path / "t.csv"), str(tmp_path / "t.yaml"), label)
        (said,) = [one for one in made.remarks if "very far" in one]
        assert said.startswith("'a' has 1 of 401 values, such as 1e+30, very far from all others, ")
        assert said.endswith(then)
        assert yaml.safe_load(made.text)["data"]["label"] == label
