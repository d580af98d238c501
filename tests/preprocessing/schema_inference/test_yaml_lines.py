"""What is written is one line, and is read back as it was."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from preprocessing.schema_inference import yaml_lines

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.recursive(_TEXTS | st.integers() | st.booleans(), st.lists, max_leaves=5))
def test_values_are_read_back(value):
    text = yaml_lines.format_flow({"key": value})
    assert len(text.splitlines()) == 1 and yaml.safe_load(text) == {"key": value}


@pytest.mark.parametrize("text", ["a\nb", "a\x85", "\u2028b", "yes", "a: b", "# c", "'", "1", ""])
def test_texts_may_be_keys_and_stand_in_lists(text):
    line = f"{yaml_lines.format_scalar(text)}: [1, {yaml_lines.format_scalar(text)}]"
    assert len(line.splitlines()) == 1 and yaml.safe_load(line) == {text: [1, text]}
