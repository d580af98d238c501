"""What TensorFlow Serving's REST API takes and gives as JSON, and the schema on top.

As in tensorflow_serving/g3doc/api_rest.md: `instances` are rows and are answered by `predictions`,
`inputs` are columns and are answered by `outputs`; bytes are {"b64": text}; NaN and Infinity are
the tokens of JavaScript. Values must be of the types of the signature, and keep the rules of the
columns, as raw rows must.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline import config, errors
from pipeline.config import date_rules
from pipeline.config.date_rules import Unruled
from pipeline.runs import exported
from preprocessing.arrow import examples
from preprocessing.rows import undated, validate
from preprocessing.sources.base import Rows

_FLOAT32 = float(np.finfo(np.float32).max)
# Beyond these float32 skips whole numbers.
_WHOLE = 2**24


class BadRequest(Exception):
    """What is wrong with a request, for who sent it."""


class _LongWhole(int):
    """A whole number that no column can hold, which an error shows by its digits."""

    digits: int

    def __repr__(self) -> str:
        return f"a number of {self.digits:,} digits"

    __str__ = __repr__


def parse_whole(text: str) -> int:
    """Returns a whole number of a body, as `json.loads` needs it for `parse_int`. Python refuses
    one of thousands of digits before it is known where it is."""
    if len(text) <= validate.SHOWN:
        return int(text)
    found = _LongWhole(text[: validate.SHOWN])
    found.digits = len(text.removeprefix("-"))
    return found


@dataclasses.dataclass(frozen=True)
class Request:
    """A signature and what it is fed, `[rows, ...]` each; `by_row` says in which form to answer.
    `undated` are values that the step `date` cannot read."""

    signature: str
    feeds: dict[str, np.ndarray]
    by_row: bool
    undated: undated.Counts = dataclasses.field(default_factory=dict)


def read(
    body: Any,
    data: config.Data,
    signatures: Mapping[str, Mapping[str, Any]],
    *,
    dates: Unruled = date_rules.NONE,
) -> Request:
    """Checks a parsed body against the signatures, a `tf.TensorSpec` for each input, and `data`.
    In columns of `dates` it counts other values.

    Raises `BadRequest` naming the first value that is not as it must be.
    """
    if not isinstance(body, dict):
        raise BadRequest(f"the body must be an object, got {_describe_kind(body)}")
    name = body.get("signature_name", "") or exported.COLUMNS
    if not isinstance(name, str) or name not in signatures:
        raise BadRequest(
            f"Serving signature name: {name!r} not found in signature def; this model has "
            f"{', '.join(signatures)}"
        )
    given = [key for key in ("instances", "inputs") if key in body]
    if len(given) != 1:
        raise BadRequest("the body must have one of 'instances' (rows) and 'inputs' (columns)")
    unknown = sorted(set(body) - {"signature_name", *given})
    if unknown:
        raise BadRequest(f"unknown key {unknown[0]!r}; known are signature_name, instances, inputs")
    by_row = given == ["instances"]
    specs = signatures[name]
    take = _parse_rows if by_row else _parse_columns
    # A part of a model takes some of the columns.
    taken = signatures.get(exported.columns_of(name), specs)
    columns = {n: column for n, column in data.columns.items() if n in taken}
    data = data.model_copy(update={"columns": columns})
    fed, check = (columns, _check_columns) if taken is specs else ({}, _check_examples)
    values = take(body[given[0]], specs, fed)
    strange = undated.count(check(values, data, given[0]), dates, columns)
    arrays = {n: _build_array(x, specs[n], fed.get(n)) for n, x in values.items()}
    return Request(name, arrays, by_row, strange)


# The values of each row, flat if there are several.
_Values = dict[str, list[Any]]


def _parse_rows(
    rows: Any, specs: Mapping[str, Any], columns: Mapping[str, config.Column]
) -> _Values:
    if not isinstance(rows, list) or not rows:
        raise BadRequest(f"instances: is {_describe_kind(rows)}, must be a list of one row or more")
    found: _Values = {name: [] for name in specs}
    for number, row in enumerate(rows):
        where = f"instances[{number}]"
        for name, value in _name_inputs(row, specs, columns, where=where).items():
            found[name].append(
                _parse_value(value, specs[name], columns.get(name), where=f"{where}.{name}")
            )
    return found


def _parse_columns(
    given: Any, specs: Mapping[str, Any], columns: Mapping[str, config.Column]
) -> _Values:
    found: _Values = {}
    for name, values in _name_inputs(given, specs, columns, where="inputs").items():
        if not isinstance(values, list) or not values:
            raise BadRequest(
                f"inputs.{name}: is {_describe_kind(values)}, must be a list of a value a row"
            )
        found[name] = [
            _parse_value(value, specs[name], columns.get(name), where=f"inputs.{name}[{number}]")
            for number, value in enumerate(values)
        ]
    sizes = {name: len(values) for name, values in found.items()}
    if len(set(sizes.values())) > 1:
        first, *others = sizes
        other = next(name for name in others if sizes[name] != sizes[first])
        raise BadRequest(
            f"inputs: {first!r} has {sizes[first]} rows, {other!r} has {sizes[other]}; all must "
            "have as many"
        )
    return found


def _name_inputs(
    given: Any, specs: Mapping[str, Any], columns: Mapping[str, config.Column], *, where: str
) -> dict[str, Any]:
    """Returns values by the names of inputs: just all of them. A lone input needs no name."""
    if len(specs) == 1 and (not isinstance(given, dict) or _is_bytes(given)):
        return {next(iter(specs)): given}
    if not isinstance(given, dict):
        raise BadRequest(
            f"{where}: is {_describe_kind(given)}, must be an object with {', '.join(specs)}"
        )
    for name in given:
        if name not in specs:
            raise BadRequest(
                f"{where}: unknown column {name!r}{errors.suggest(name, specs)}; the model takes "
                f"{', '.join(specs)}"
            )
    for name in specs:
        if name not in given:
            raise BadRequest(
                f"{where}: column {name!r} is missing{_describe_missing(columns.get(name))}"
            )
    return given


def _describe_missing(column: config.Column | None) -> str:
    """Says what to write where a column that may be missing has no value."""
    if column is None or (column.missing != "allow" and not column.list):
        return ""
    return f"; no value is written as {_format_missing(column)}"


def _format_missing(column: config.Column) -> str:
    if column.list:
        return "[]"
    value = column.stands_for_missing
    return f'"{value}"' if isinstance(value, str) else "NaN" if value != value else str(value)


def _parse_value(value: Any, spec: Any, column: config.Column | None, *, where: str) -> Any:
    """Returns one value, or several of a row as a flat list."""
    leaf = _LEAVES[spec.dtype.name]
    shape = tuple(spec.shape.as_list()[1:])
    flat: list[Any] = []
    if value is None and (hint := _describe_missing(column)):
        raise BadRequest(f"{where}: is null{hint}")
    _flatten(value, shape, where, take=lambda item, place: flat.append(leaf(item, place)))
    if column is not None and column.type == "uint8" and len(flat[0]) != column.size:
        size = "x".join(map(str, column.shape))
        raise BadRequest(
            f"{where}: has {len(flat[0]):,} bytes, must have {column.size:,}: {size} values of one "
            "byte, row by row"
        )
    return flat if shape else flat[0]


def _flatten(
    value: Any, shape: tuple[int | None, ...], where: str, *, take: Callable[[Any, str], None]
) -> None:
    if not shape:
        take(value, where)
        return
    if not isinstance(value, list) or shape[0] not in (None, len(value)):
        size = "" if shape[0] is None else f" of {shape[0]}"
        raise BadRequest(f"{where}: is {_describe_kind(value)}, must be a list{size}")
    for number, item in enumerate(value):
        _flatten(item, shape[1:], f"{where}[{number}]", take=take)


def _parse_whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"{where}: is {_describe_kind(value)}, must be a whole number")
    if not -(2**63) <= value < 2**63:
        raise BadRequest(f"{where}: is {value}, too large for int64")
    return value


def _parse_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(f"{where}: is {_describe_kind(value)}, must be a number")
    too_large = math.isfinite(value) and abs(value) > _FLOAT32
    if too_large or (isinstance(value, int) and abs(value) > _WHOLE):
        raise BadRequest(f"{where}: is {value}, which float32 cannot hold")
    return float(value)


def _parse_text(value: Any, where: str) -> bytes:
    try:
        if _is_bytes(value):
            padded = value["b64"] + "=" * (-len(value["b64"]) % 4)
            return base64.b64decode(padded, validate=True)
        if isinstance(value, str):
            return value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{where}: half of a surrogate pair is not text") from None
    except ValueError as error:  # not only binascii.Error: of characters beyond ASCII, too
        raise BadRequest(f"{where}.b64: is not base64: {error}") from None
    raise BadRequest(f'{where}: is {_describe_kind(value)}, must be a text or {{"b64": text}}')


_LEAVES: Mapping[str, Callable[[Any, str], Any]] = {
    "int64": _parse_whole,
    "float32": _parse_number,
    "string": _parse_text,
}


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


_KINDS = {dict: "an object", str: "a text", bool: "true or false", type(None): "null"}


def _describe_kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and len(value) <= validate.SHOWN:
        return repr(value)
    return _KINDS[type(value)]


def _build_array(values: list[Any], spec: Any, column: config.Column | None) -> np.ndarray:
    shape = [len(values), *spec.shape.as_list()[1:]]
    if column is not None and column.list and shape[1:] == [None]:
        shape[1] = max(map(len, values))
        pad: Any = column.stands_for_missing
        pad = pad.encode() if isinstance(pad, str) else pad
        values = [[*items, *[pad] * (shape[1] - len(items))] for items in values]
    return np.array(values, spec.dtype.as_numpy_dtype).reshape(shape)


def _check_columns(values: _Values, data: config.Data, where: str) -> pa.RecordBatch:
    found = values | _drop_padding(values, data.columns)
    arrays = [_build_raw(found[name], column) for name, column in data.columns.items()]
    return _check(pa.record_batch(arrays, list(data.columns)), data, where)


def _drop_padding(values: _Values, columns: Mapping[str, config.Column]) -> _Values:
    """Returns lists without what stands for no item, wherever it is. Two that have to be of one
    length, and are that only as they were sent, stay so: then it is no padding."""
    lists = {name: column for name, column in columns.items() if column.list}
    found = {
        name: [[item for item in items if not _stands_in(item, column)] for items in values[name]]
        for name, column in lists.items()
    }
    for name, other in (
        (n, c.same_length_as) for n, c in lists.items() if c.same_length_as in lists
    ):
        for row, sent in enumerate(zip(values[name], values[other], strict=True)):
            if len(sent[0]) == len(sent[1]) and len(found[name][row]) != len(found[other][row]):
                found[name][row], found[other][row] = sent
    return found


def _build_raw(values: list[Any], column: config.Column) -> pa.Array:
    """Returns values as a source finds them: null where one stands for none."""
    if column.missing == "allow" and not column.list:
        values = [None if _stands_in(value, column) else value for value in values]
    element = {"int64": pa.int64(), "float32": pa.float32()}.get(column.type, pa.binary())
    listed = column.list or (column.shape and not column.is_image)
    return pa.array(values, pa.list_(element) if listed else element)


def _stands_in(value: Any, column: config.Column) -> bool:
    stand_in: Any = column.stands_for_missing
    stand_in = stand_in.encode() if isinstance(stand_in, str) else stand_in
    items = value if isinstance(value, list) else [value]
    return all(item == stand_in or (item != item and stand_in != stand_in) for item in items)


def _check_examples(values: _Values, data: config.Data, where: str) -> pa.RecordBatch:
    [payloads] = values.values()
    batch, bad = examples.parse_columns(payloads, data.columns, {}, exact=True)
    for row, (column, _, _, problem) in sorted(bad.items()):
        raise BadRequest(f"{where}[{row}]: {f'column {column!r} ' if column else ''}{problem}")
    return _check(batch, data, where)


def _check(batch: pa.RecordBatch, data: config.Data, where: str) -> pa.RecordBatch:
    """Holds rows to the rules of their columns, as `make preprocess` and `make predict` do; returns
    them."""
    for name, column in data.columns.items():
        row = _find_first_nan(batch.column(name), column)
        if row is not None:
            raise BadRequest(
                f"{_place(where, row)}: column {name!r} is NaN{_describe_missing(column)}"
            )
    good = validate.enforce(Rows(batch), data, "test")
    if good.letters:
        letter = good.letters[0]
        place = _place(where, letter.row)
        raise BadRequest(f"{place}: column {letter.column!r} {letter.problem}")
    return good.batch


def _place(where: str, row: int) -> str:
    return f"instances[{row}]" if where == "instances" else f"inputs, row {row}"


def _find_first_nan(values: pa.Array, column: config.Column) -> int | None:
    """Returns the first row with NaN in a column for which a default stands in training: the rules
    take NaN for no value, but a model does not."""
    if column.type != "float32" or column.list or column.default is None:
        return None
    for row, value in enumerate(values.to_pylist()):
        if any(item != item for item in (value if isinstance(value, list) else [value])):
            return row
    return None


def answer(outputs: Mapping[str, np.ndarray], *, by_row: bool) -> dict[str, Any]:
    """Returns the answer to a request; a lone output goes without its name."""
    lists = {name: _convert_to_lists(name, values) for name, values in sorted(outputs.items())}
    if len(lists) == 1:
        return {"predictions" if by_row else "outputs": next(iter(lists.values()))}
    if not by_row:
        return {"outputs": lists}
    rows = zip(*lists.values(), strict=True)
    return {"predictions": [dict(zip(lists, row, strict=True)) for row in rows]}


def _convert_to_lists(name: str, values: np.ndarray) -> Any:
    if values.dtype == object:
        flat = [_encode_bytes(value, name) for value in values.ravel().tolist()]
        return np.array(flat, object).reshape(values.shape).tolist()
    if values.dtype == np.float32:
        # With the digits of a float32, not those of the float64 it becomes.
        values = values.astype(np.str_).astype(np.float64)
    return values.tolist()


def _encode_bytes(value: bytes, name: str) -> Any:
    """Returns text as text, and bytes, which TensorFlow Serving knows by their name, in base64."""
    if not name.endswith("_bytes"):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(value).decode()}
