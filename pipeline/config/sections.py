"""What every section of a config is built from: the base class, and kinds of values."""

from __future__ import annotations

import re
from typing import Annotated

import pydantic


def like(pattern: str, example: str) -> pydantic.AfterValidator:
    """Returns what refuses texts that do not match `pattern`, and shows one that does."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must look like {example!r}, got {value!r}")
        return value

    return pydantic.AfterValidator(check)


Fraction = Annotated[float, pydantic.Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, pydantic.Field(gt=0)]
NotNegative = Annotated[int, pydantic.Field(ge=0)]


class Section(pydantic.BaseModel):
    """A part of the config: immutable, and with no keys but its own."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
