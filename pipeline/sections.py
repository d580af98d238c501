"""What every section of a config is built from: the base class, and kinds of values."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar, get_args

import pydantic
import pydantic_core


@dataclasses.dataclass(frozen=True)
class Like:
    """Annotates a text that must match `pattern`; errors and docs show the `example`, errors also
    in words what is allowed, where that is given."""

    pattern: str
    example: str
    allowed: str = ""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> pydantic_core.CoreSchema:
        return pydantic_core.core_schema.no_info_after_validator_function(
            self._check, handler(source)
        )

    def _check(self, value: str) -> str:
        if not re.fullmatch(self.pattern, value):
            words = f" ({self.allowed})" if self.allowed else ""
            raise ValueError(f"must look like {self.example!r}{words}, got {value!r}")
        return value


Finite = Annotated[float, pydantic.Field(allow_inf_nan=False)]
Fraction = Annotated[float, pydantic.Field(ge=0.0, lt=1.0)]
AtLeast0 = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Above0 = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Positive = Annotated[int, pydantic.Field(gt=0)]
NotNegative = Annotated[int, pydantic.Field(ge=0)]


class Stored(pydantic.BaseModel):
    """A part of what programs write and read: immutable, and with no keys but its own."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Section(Stored):
    """A part of the config, which people write.

    Each key has a docstring below it, which `pipeline.config.reference` copies to docs/config.md.
    A key that holds a section may do without: the docstring of that class explains it.
    """

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _refuse_switches(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        """Refuses `yes` and `true`, which pydantic would take for 1, where a number is wanted."""
        many = isinstance(value, list | tuple)
        if bool not in (map(type, value) if many else (type(value),)):
            return value
        wanted = _find_types(cls, info.field_name or "")
        if {int, float} & wanted and not {bool, Any} & wanted:
            word = str(next(v for v in value if isinstance(v, bool)) if many else value).lower()
            raise ValueError(
                f"got {word}, which is neither a number nor a text: YAML reads yes, no, on and off "
                "as true and false. Write 1 or 0, or put the word in quotes"
            )
        return value


@functools.cache
def _find_types(section: type[Section], key: str) -> set[Any]:
    return _parts(section.model_fields[key].annotation)


def _parts(annotation: Any) -> set[Any]:
    """Returns the types that an annotation is made of, that of a literal value among them."""
    inner = get_args(annotation)
    if inner:
        return {part for one in inner for part in _parts(one)}
    return {annotation if isinstance(annotation, type) or annotation is Any else type(annotation)}


_S = TypeVar("_S", bound=Section)


def import_subclasses(base: type[_S], package: str) -> list[type[_S]]:
    """Imports all modules of a package, and returns the classes below `base` that are in them."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    found = dict.fromkeys(_list_subclasses(base))  # once, of several bases
    return [one for one in found if one.__module__.startswith(f"{package}.")]


def _list_subclasses(base: type[_S]) -> Iterator[type[_S]]:
    for found in base.__subclasses__():
        yield found
        yield from _list_subclasses(found)


_P = TypeVar("_P", bound="PlaceSection")


class PlaceSection(Section):
    """The settings of a place where jobs run (`pipeline.places`). They do not change a model."""

    @classmethod
    def of(cls: type[_P], config: Section) -> _P:
        """Returns the section of this class in a config."""
        return next(value for _, value in config if isinstance(value, cls))
