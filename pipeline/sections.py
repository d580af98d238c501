"""What every section of a config is built from: the base class, and kinds of values."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any, TypeVar

import pydantic
import pydantic_core


@dataclasses.dataclass(frozen=True)
class Like:
    """Annotates a text that must match `pattern`; errors and docs show the `example`."""

    pattern: str
    example: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> pydantic_core.CoreSchema:
        return pydantic_core.core_schema.no_info_after_validator_function(
            self._check, handler(source)
        )

    def _check(self, value: str) -> str:
        if not re.fullmatch(self.pattern, value):
            raise ValueError(f"must look like {self.example!r}, got {value!r}")
        return value


Fraction = Annotated[float, pydantic.Field(ge=0.0, lt=1.0)]
AtLeast0 = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Above0 = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Positive = Annotated[int, pydantic.Field(gt=0)]
NotNegative = Annotated[int, pydantic.Field(ge=0)]


class Section(pydantic.BaseModel):
    """A part of the config: immutable, and with no keys but its own.

    Each key has a docstring below it, which `pipeline.config.reference` copies to docs/config.md.
    A key that holds a section may do without: the docstring of that class explains it.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


_P = TypeVar("_P", bound="PlaceSection")


class PlaceSection(Section):
    """The settings of a place where jobs run (`pipeline.places`). They do not change a model."""

    @classmethod
    def of(cls: type[_P], config: Section) -> _P:
        """Returns the section of this class in a config."""
        return next(value for _, value in config if isinstance(value, cls))
