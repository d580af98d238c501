"""How values of YAML are read."""

from __future__ import annotations

import pytest
import yaml

from pipeline.config import yaml_loader


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:00:00", "12:00:00"),
        ("1:30.5", "1:30.5"),
        ("{port: 10:30}", {"port": "10:30"}),
        ("-12", -12),
        ("0x1f", 31),
        ("1.5e+3", 1500.0),
        ("9" * 299, int("9" * 299)),
        ("9" * 300, "9" * 300),
        ("-" + "9" * 5001, "-" + "9" * 5001),
        ("0x" + "f" * 5001, "0x" + "f" * 5001),
    ],
)
def test_a_colon_and_hundreds_of_digits_make_no_number(text, value):
    assert yaml.load(text, Loader=yaml_loader.Loader) == value
