"""Sections refuse what they do not know, and do not change."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
import pytest

from pipeline import sections


class Box(sections.Section):
    """A section."""

    size: sections.Positive
    left: sections.NotNegative = 0
    share: sections.Fraction = 0
    label: Annotated[str, sections.Like(r"^[a-z]+$", "blue")] | None = None
    sides: tuple[sections.Positive, ...] | None = None
    words: tuple[int | str, ...] = ()
    lid: bool | int = False
    content: Any = None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, "greater than 0"),
        ({"size": 1, "left": -1}, "greater than or equal to 0"),
        ({"size": 1, "share": 1}, "less than 1"),
        ({"size": 1, "sise": 1}, "Extra inputs"),
        ({"size": 1, "label": "B"}, "must look like 'blue', got 'B'"),
        ({"size": 1, "label": "blue\n"}, r"must look like 'blue', got 'blue\\n'"),
        ({"size": True}, "got true, which is neither a number nor a text: YAML reads yes, no, on"),
        ({"size": 1, "share": False}, r"got false, .* Write 1 or 0, or put the word in quotes"),
        ({"size": 1, "sides": [2, True]}, "got true, which is neither"),
        ({"size": 1, "words": ["a", False]}, "got false, which is neither"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Box(**values)


def test_switches_are_switches():
    box = Box(size=1, lid=True, content=True, words=("yes", 1))
    assert (box.lid, box.content, box.words) == (True, True, ("yes", 1))


def test_it_does_not_change():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        Box(size=1).size = 2
