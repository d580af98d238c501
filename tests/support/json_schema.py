"""Validates JSON by the part of JSON Schema that Kubernetes' schemas use."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_UNDERSTOOD = frozenset(
    {"type", "properties", "required", "items", "enum", "pattern", "additionalProperties", "oneOf"}
    | {"minimum", "minLength", "maxLength", "maxItems"}
)
_IGNORED = frozenset({"format"})
_BITS = {"int32": 32, "int64": 64}


class Schemas:
    """The schemas in the files of a folder, which may refer to each other."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._files = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}

    def errors(self, value: Any, file: str, definition: str) -> list[str]:
        """Returns what is wrong with a value, by a definition of a file; a line each."""
        return self._find_errors(value, {"$ref": f"{file}#/$defs/{definition}"}, file, path="")

    def _find_errors(
        self, value: Any, schema: dict[str, Any], file: str, *, path: str
    ) -> list[str]:
        if "$ref" in schema:
            named, _, fragment = schema["$ref"].partition("#/$defs/")
            file = named or file
            return self._find_errors(value, self._files[file]["$defs"][fragment], file, path=path)
        unknown = {*schema} - _UNDERSTOOD - _IGNORED
        assert not unknown, f"{path}: the schema has {unknown}, which is not understood here"
        if "type" in schema and not _is_of_kind(value, schema["type"]):
            return [f"{path}: {value!r} is no {schema['type']}"]
        found = []
        bits = _BITS.get(schema.get("format", ""))
        if bits and isinstance(value, int) and not -1 << bits - 1 <= value < 1 << bits - 1:
            found.append(f"{path}: {value} has more than {bits} bits")
        if "enum" in schema and value not in schema["enum"]:
            found.append(f"{path}: {value!r} is none of {schema['enum']}")
        if (
            isinstance(value, str)
            and "pattern" in schema
            and not re.search(schema["pattern"], value)
        ):
            found.append(f"{path}: {value!r} does not match {schema['pattern']}")
        found += [f"{path}: {text}" for text in _find_beyond(value, schema)]
        if "oneOf" in schema:
            fitting = [
                s for s in schema["oneOf"] if not self._find_errors(value, s, file, path=path)
            ]
            found += (
                [] if len(fitting) == 1 else [f"{path}: {value!r} fits {len(fitting)} of oneOf"]
            )
        if isinstance(value, dict):
            found += self._find_object_errors(value, schema, file, path=path)
        if isinstance(value, list) and "items" in schema:
            for i, one in enumerate(value):
                found += self._find_errors(one, schema["items"], file, path=f"{path}[{i}]")
        return found

    def _find_object_errors(
        self, value: dict[str, Any], schema: dict[str, Any], file: str, *, path: str
    ) -> list[str]:
        found = [
            f"{path}.{name}: missing" for name in schema.get("required", []) if name not in value
        ]
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, one in value.items():
            if name in known:
                found += self._find_errors(one, known[name], file, path=f"{path}.{name}")
            elif isinstance(others, dict):
                found += self._find_errors(one, others, file, path=f"{path}.{name}")
            elif not others:
                found.append(f"{path}.{name}: unknown")
        return found


def _find_beyond(value: Any, schema: dict[str, Any]) -> list[str]:
    """Returns which limits of a schema a value is beyond."""
    size = len(value) if isinstance(value, str | list) else value
    bounds = {"minimum": (int, float), "minLength": str, "maxLength": str, "maxItems": list}
    return [
        f"{size} is beyond the {name} of {schema[name]}"
        for name, kind in bounds.items()
        if name in schema
        and isinstance(value, kind)
        and (size < schema[name] if name.startswith("min") else size > schema[name])
    ]


def _is_of_kind(value: Any, kinds: str | list[str]) -> bool:
    wanted = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(value, bool):
        return "boolean" in wanted
    return any(isinstance(value, _TYPES[kind]) for kind in wanted)
