from typing import Annotated, Any, Literal

import pydantic
import pytest

from pipeline import sections
from pipeline.config import schema, type_words


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (sections.Positive, "integer, at least 1"),
        (sections.NotNegative, "integer, at least 0"),
        (sections.Fraction, "number, at least 0, below 1"),
        (sections.Above0 | None, "number, above 0"),
        (bool, "`true` or `false`"),
        (Literal["a", "'", "", "c"], "`a`, `\"'\"`, `''` or `c`"),
        (sections.Positive | Literal["auto"], "integer, at least 1; or `auto`"),
        (int | float | str, "number or text"),
        (tuple[sections.Positive, ...], "list of integers, each at least 1"),
        (dict[str, Any], "mapping of name to any value"),
        (schema.Name, "text, such as `flights-2024`"),
        (Annotated[str, pydantic.Field(pattern="^x$")], "text, matching `^x$`"),
        (Annotated[tuple[str, ...], pydantic.Field(min_length=1)], "list of texts, not empty"),
        (Annotated[float, pydantic.Field(gt=0, le=24 * 28)], "number, above 0, at most 672"),
        (dict[Literal["train", "eval"], schema.Drift], "mapping of `train` or `eval` to section"),
    ],
)
def test_types_and_ranges_in_words(annotation, words):
    assert type_words.describe_type(annotation) == words
