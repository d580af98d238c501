"""Limits of drift are shares, by column where wanted."""

from __future__ import annotations

import pydantic
import pytest

from pipeline.config import drift_config


def test_defaults_and_columns_of_their_own():
    found = drift_config.Drift.model_validate({"columns": {"x": {"distance": 0.3}}})
    assert (found.categories, found.numbers, found.missing) == (0.1, 0.1, 0.05)
    assert found.columns["x"].distance == 0.3 and found.columns["x"].missing is None


@pytest.mark.parametrize("value", [{"numbers": 1.5}, {"numbers": -0.1}, {"number": 0.1}])
def test_what_is_no_limit(value):
    with pytest.raises(pydantic.ValidationError):
        drift_config.Drift.model_validate(value)
