"""JSON that every reader takes."""

from __future__ import annotations

import json
import math
import pathlib
import re

import pytest

from pipeline.storage import strict_json

ROOT = pathlib.Path(__file__).resolve().parents[3]
INF = math.inf


def _strictly(text):
    """Reads as other programs do, which have no such numbers."""

    def refused(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refused)


@pytest.mark.parametrize(
    "value", [INF, -INF, {"a": [1, (INF, "x")]}, {"deep": {"er": [-INF, None, True, 2.5]}}]
)
def test_numbers_that_are_not_finite_are_read_back(value):
    text = strict_json.dumps(value)
    assert _strictly(text) is not None
    listed = json.loads(json.dumps(value))  # tuples become lists, as in any JSON
    assert strict_json.loads(text) == listed


@pytest.mark.parametrize("digits", [300, 4300, 5001])
def test_a_number_of_too_many_digits_stays_a_text(digits):
    text = f'{{"a": -{"9" * digits}, "b": [-12, 3.5]}}'
    found = json.loads(text, parse_int=strict_json.parse_whole)
    assert found == {"a": f"-{'9' * digits}", "b": [-12, 3.5]}


def test_nan_is_read_back_as_nan():
    text = strict_json.dumps({"loss": math.nan})
    assert _strictly(text) == {"loss": "NaN"}
    assert math.isnan(strict_json.loads(text)["loss"])


def test_all_else_is_as_python_writes_it():
    value = {"b": [1, 2.5, "ä", None, True], "a": {}}
    assert strict_json.dumps(value, indent=1) == json.dumps(value, indent=1)
    assert strict_json.dumps(value, sort_keys=True) == json.dumps(value, sort_keys=True)
    assert strict_json.loads(strict_json.dumps(value)) == value


def test_no_file_is_written_by_other_means():
    """Whatever hands JSON to `storage.write_text` has it from here."""
    found = []
    for folder in ("pipeline", "preprocessing", "serving", "trainer", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            statements = re.split(r"\n\s*\n|\n(?=\s*(?:def|return|if) )", path.read_text())
            found += [
                path.name
                for text in statements
                if "write_text(" in text and re.search(r"(?<!strict_)json\.dumps\(", text)
            ]
    assert found == []
