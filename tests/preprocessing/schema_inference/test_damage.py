"""Columns that no config can have are told from those with a few bad values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from preprocessing.schema_inference import damage
from tests.preprocessing.schema_inference.surveyed import survey_values


@pytest.mark.parametrize(
    ("bad", "source", "left_out"), [(9, "orc", False), (10, "orc", True), (10, "csv", False)]
)
def test_bytes_are_distinguished_from_damaged_text(bad, source, left_out):
    found = survey_values([])
    found.see(pa.array([b"\xff"] * bad + [b"word"] * (1000 - bad)))
    assert (damage.explain_unusable(found, source) is not None) == left_out
