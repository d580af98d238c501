"""Types and ranges of the keys of a config in words, for docs/config.md and for errors."""

from __future__ import annotations

import itertools
import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import annotated_types
import yaml
from pydantic.fields import FieldInfo

from pipeline import sections
from pipeline.steps.base import Step

_BASIC = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "`true` or `false`",
    Any: "any value",
}


def describe_type(annotation: Any) -> str:
    """Returns type and range of an annotation in words, such as "integer, at least 1"."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return ", ".join([describe_type(arguments[0]), *_list_limits(annotation)])
    if origin is Literal:
        return join_with_or([format_yaml(value) for value in arguments])
    if origin in (typing.Union, types.UnionType):
        members = [describe_type(one) for one in arguments if one is not type(None)]
        wider = {"integer"} if "number" in members else set()
        return join_with_or([one for one in dict.fromkeys(members) if one not in wider])
    if origin is tuple:
        several = re.sub(r"\b(integer|number|text|step)\b", r"\1s", describe_type(arguments[0]))
        return f"list of {several.replace(', at', ', each at')}"
    if origin is dict:
        key = "name" if arguments[0] is str else describe_type(arguments[0])
        return f"mapping of {key} to {describe_type(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, sections.Section):
        return "step" if issubclass(annotation, Step) else "section"
    return _BASIC[annotation]


def join_with_or(members: list[str]) -> str:
    """Returns members as they are listed in a sentence, the last after `or`."""
    *first, last = members
    before = "; or " if any("," in one for one in first) else " or "
    return ", ".join(first) + before + last if first else last


def _list_limits(annotated: Any) -> Iterator[str]:
    base, *metadata = typing.get_args(annotated)
    for one in itertools.chain.from_iterable(
        one.metadata if isinstance(one, FieldInfo) else [one] for one in metadata
    ):
        match one:
            case annotated_types.Gt(gt=0) if base is int:
                yield "at least 1"
            case annotated_types.Gt(gt=limit):
                yield f"above {_format_number(limit)}"
            case annotated_types.Ge(ge=limit):
                yield f"at least {_format_number(limit)}"
            case annotated_types.Lt(lt=limit):
                yield f"below {_format_number(limit)}"
            case annotated_types.Le(le=limit):
                yield f"at most {_format_number(limit)}"
            case annotated_types.MinLen():
                yield "not empty"
            case sections.Like(example=example):
                yield f"such as `{example}`"
            case _ if getattr(one, "pattern", None):
                yield f"matching `{one.pattern}`"


def _format_number(limit: Any) -> str:
    return f"{limit:,.0f}" if abs(limit) >= 10_000 else f"{limit:g}"


def format_yaml(value: Any) -> str:
    """Returns a value as it is written in a config."""
    if isinstance(value, str) and "'" in value:
        return f"`{json.dumps(value)}`"
    plain = list(value) if isinstance(value, tuple) else value
    plain = int(plain) if isinstance(plain, float) and plain.is_integer() else plain
    text = yaml.safe_dump(plain, default_flow_style=True, width=1000, sort_keys=False)
    return f"`{text.strip().removesuffix('...').strip()}`"
