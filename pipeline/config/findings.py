"""Says in the words of a config what pydantic finds wrong with it: key, what was given, what is
allowed."""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from collections.abc import Iterable
from typing import Any

import pydantic

from pipeline import errors, steps
from pipeline.config import type_words
from pipeline.steps import Step

_OF_LENGTHS = ("too_short", "string_too_short")
# In pydantic's own words of these are names of Python.
_OF_PYTHON = ("model_type", "dict_type", "bool_parsing", "bool_type")
_LABELS = ("literal[", "constrained-", "function-")
_NOUNS = ("integer", "number", "text", "mapping", "list", "step")
_OF_KEY = "[key]"  # pydantic's last part of the place of a key that is wrong itself


@dataclasses.dataclass(frozen=True)
class _Location:
    """Where something is wrong: the keys as they were written, those known next to the last, and
    what the last may be; `of_several` if that is one of several types."""

    keys: list[str]
    known: list[str]
    annotation: Any
    of_several: bool


def explain(details: Iterable[Any], section: type[pydantic.BaseModel], prefix: str = "") -> str:
    """Puts pydantic's findings about a section in our words, in one line; `prefix` leads to it.
    What it finds of each of several types a value may have is one finding."""
    return "; ".join(dict.fromkeys(_explain(detail, section, prefix) for detail in details))


def _explain(detail: Any, section: type[pydantic.BaseModel], prefix: str) -> str:
    place = _find_place(detail["loc"], section)
    path = ".".join([*filter(None, (prefix,)), *place.keys])
    kind, given = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        hint = errors.suggest(place.keys[-1], place.known)
        return f"unknown key {path!r}{hint}; known here: {', '.join(place.known)}"
    if kind == "missing":
        return f"missing key {path!r}"
    if kind == "union_tag_invalid":
        allowed, tag = detail["ctx"]["expected_tags"], detail["ctx"]["tag"]
        return f"{path}.by: input should be one of {allowed}, got {tag!r}"
    where = f"{path}: " if path else ""
    if kind == "union_tag_not_found":
        return f"{where}must be a mapping of keys, got {_show(given)}"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return where + message
    return where + _explain_value(place, detail, message)


def _explain_value(place: _Location, detail: Any, message: str) -> str:
    """Returns what a value must be, and what was given; `message` is pydantic's."""
    kind, given = detail["type"], detail["input"]
    if not place.of_several and kind in ("tuple_type", "list_type"):
        return f"must be a list, such as [a, b], got {_show(given)}"
    if not place.of_several and kind == "string_type":
        return f"must be a text, got {_explain_no_text(given)}"
    if kind == "int_parsing_size":
        return f"must be a whole number of fewer digits, got {len(given):,}"
    if not place.of_several and kind in _OF_LENGTHS:
        return f"must hold at least {detail['ctx']['min_length']}, got {_show(given)}"
    words = _describe(place.annotation) if _needs_words(place, kind, detail) else ""
    if words:
        return f"must be {words}, got {_show(given)}"
    return f"{message[0].lower()}{message[1:]}, got {_show(given)}"


def _needs_words(place: _Location, kind: str, detail: Any) -> bool:
    """Tells if pydantic's own words are those of Python, or of one type of several."""
    if kind == "literal_error" and not place.of_several:
        return not detail["ctx"]["expected"].startswith("'")
    return place.of_several or kind in _OF_PYTHON


def _describe(annotation: Any) -> str:
    """Returns what an annotation allows, as docs/config.md has it; nothing for a type of a step of
    the user's own that has no words there."""
    try:
        words = type_words.describe_type(annotation)
    except KeyError:
        return ""
    if words == "section":
        return "a mapping of keys"
    article = "an " if words.startswith("integer") else "a "
    return (article if words.startswith(_NOUNS) else "") + words.replace("`", "")


def _explain_no_text(given: Any) -> str:
    if isinstance(given, bool):
        words = "yes, on and true" if given else "no, off and false"
        return f"{_show(given)}, as which YAML reads {words}: put it in quotes"
    if isinstance(given, int | float):
        return f"the number {given}: put it in quotes"
    if isinstance(given, datetime.date):
        return f"the date {given}: put it in quotes"
    return "nothing: give one, or leave out the key" if given is None else _show(given)


def _show(given: Any) -> str:
    if given is None:
        return "nothing"
    return str(given).lower() if isinstance(given, bool) else repr(given)


def _find_place(location: tuple[int | str, ...], section: type[pydantic.BaseModel]) -> _Location:
    """Returns where `location` is, without the names that pydantic gives types."""
    path: list[str] = []
    known: list[str] = []
    annotation: Any = section
    several: Any = None
    for part in (one for one in location if one != _OF_KEY):
        annotation, several = _unwrap(annotation), None
        if _find_section(annotation) is Step and isinstance(part, str):  # the name of a step
            annotation = steps.find(part)
            path.append(part)
            continue
        kinds = _list_kinds(annotation)
        if part in kinds:  # which of several sections it is, not a key
            annotation = kinds[str(part)]
            continue
        if not kinds and _is_label(str(part), annotation):  # which of several types it is
            several, annotation = annotation, _choose_member(annotation, str(part))
            continue
        path.append(str(part))
        inner = (*typing.get_args(annotation), None, None)
        if isinstance(part, int):  # of a list
            annotation = inner[0]
            continue
        if typing.get_origin(annotation) is dict:  # a key of the user's own
            annotation = inner[1]
            continue
        found = _find_section(annotation)
        known = list(found.model_fields) if found else []
        annotation = found.model_fields[part].rebuild_annotation() if part in known else None
    return _Location(path, known, annotation if several is None else several, several is not None)


def _unwrap(annotation: Any) -> Any:
    """Returns what is within `Annotated` and `X | None`."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _unwrap(typing.get_args(annotation)[0])
    members = [one for one in typing.get_args(annotation) if one is not type(None)]
    single = _is_union(annotation) and len(members) == 1
    return _unwrap(members[0]) if single else annotation


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _is_label(part: str, annotation: Any) -> bool:
    """Tells pydantic's names of the types of a union from keys."""
    if not _is_union(annotation):
        return False
    names = [_name(one) for one in typing.get_args(annotation)]
    return part.partition("[")[0] in names or part.startswith(_LABELS)


def _choose_member(union: Any, label: str) -> Any:
    """Returns the type of a union that pydantic calls `label`, if it has keys or items."""
    name = label.partition("[")[0]
    members = typing.get_args(union)
    return next((one for one in members if _name(one) == name), None)


def _name(annotation: Any) -> str:
    return getattr(typing.get_origin(annotation) or annotation, "__name__", "")


def _list_kinds(annotation: Any) -> dict[str, Any]:
    """Returns the sections of a union by their tags, if it is one that has these."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    tagged = [(member, *typing.get_args(member)[1:]) for member in typing.get_args(annotation)]
    return {m[1].tag: m[0] for m in tagged if len(m) > 1 and isinstance(m[1], pydantic.Tag)}


def _find_section(annotation: Any) -> Any:
    """Finds the section class within `Annotated`, `X | None` and `dict[str, X]`, or `None`."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    found = (_find_section(argument) for argument in typing.get_args(annotation))
    return next((section for section in found if section is not None), None)
