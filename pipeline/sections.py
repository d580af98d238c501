"""What every section of a config is built from: the base class, and kinds of values."""

from __future__ import annotations

from typing import Annotated

import pydantic

Fraction = Annotated[float, pydantic.Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, pydantic.Field(gt=0)]
NotNegative = Annotated[int, pydantic.Field(ge=0)]


class Section(pydantic.BaseModel):
    """A part of the config: immutable, and with no keys but its own."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
