"""Reads serialized `tf.train.Example`s into columns, without TensorFlow.

The messages are declared again from tensorflow/core/example/*.proto, in a pool of their own so that
they do not collide with TensorFlow's if that is imported too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from pipeline import config

# Type of a column -> the member of Feature that holds it.
LISTS = {
    "uint8": "bytes_list",
    "image": "bytes_list",
    "string": "bytes_list",
    "int64": "int64_list",
    "float32": "float_list",
}
_TYPES = {"int64": pa.int64(), "float32": pa.float32()}

# How the fields of a SequenceExample begin; an Example has but the first.
_CONTEXT, _FEATURE_LISTS = b"\x0a", b"\x12"
SEQUENCE = (
    "is a tf.train.SequenceExample, whose feature_lists cannot be read. Write tf.train.Examples, "
    "with each list as a feature (a column with list: true)"
)

# A column, a reason code, the value that is wrong, and what is wrong with it.
Problem = tuple[str | None, str, str | None, str]


def _build_message_classes() -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="x", syntax="proto3")

    def add(
        holder: Any, name: str, number: int, *, kind: int, of: str = "", many: bool = False
    ) -> Any:
        label = field.LABEL_REPEATED if many else field.LABEL_OPTIONAL
        made = holder.field.add(name=name, number=number, type=kind, label=label)
        if of:
            made.type_name = of
        return made

    for name, kind in (
        ("BytesList", field.TYPE_BYTES),
        ("FloatList", field.TYPE_FLOAT),
        ("Int64List", field.TYPE_INT64),
    ):
        add(file.message_type.add(name=name), "value", 1, kind=kind, many=True)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, of) in enumerate(
        (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")), 1
    ):
        add(feature, name, number, kind=field.TYPE_MESSAGE, of=f".x.{of}").oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    add(entry, "key", 1, kind=field.TYPE_STRING)
    add(entry, "value", 2, kind=field.TYPE_MESSAGE, of=".x.Feature")
    add(features, "feature", 1, kind=field.TYPE_MESSAGE, of=".x.Features.FeatureEntry", many=True)
    example = file.message_type.add(name="Example")
    add(example, "features", 1, kind=field.TYPE_MESSAGE, of=".x.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("x.Example"))


_Example = _build_message_classes()


def parse_lists(payload: bytes) -> list[tuple[str, str, Sequence[Any]]] | None:
    """Returns name, kind of list and values of each feature, or `None` of what is no Example."""
    try:
        found = _Example.FromString(payload).features.feature
    except message.DecodeError:
        return None
    kinds = ((name, feature, feature.WhichOneof("kind")) for name, feature in found.items())
    return [(name, kind, getattr(feature, kind).value) for name, feature, kind in kinds if kind]


def is_sequence(payload: bytes) -> bool:
    """Tells if this is a `tf.train.SequenceExample` that has feature_lists, which as an Example
    would lack them without a word."""
    at = 0
    while payload[at : at + 1] == _CONTEXT:
        at, size, shift, more = at + 1, 0, 0, 0x80
        while more and at < len(payload):
            size |= (payload[at] & 0x7F) << shift
            more = payload[at] & 0x80
            at, shift = at + 1, shift + 7
        at += size
    return payload[at : at + 1] == _FEATURE_LISTS


def parse_columns(
    payloads: Sequence[bytes],
    columns: dict[str, config.Column],
    known: Mapping[int, Problem],
    *,
    exact: bool = False,
) -> tuple[pa.RecordBatch, dict[int, Problem]]:
    """Returns the rows that have features of the declared kinds, and what is wrong with others.

    Payloads of which a problem is `known` are not looked at. With `exact`, for payloads that
    TensorFlow parses as they are, an empty feature is a problem, too, unless it is of the kind of a
    column that is a list.

    A feature that is absent, or has no value, is null; of a column that is a list, no value is an
    empty list. Text stays bytes, and lists may have any length: `preprocessing.arrow.cast` checks
    both.
    """
    bad = dict(known)
    maps: list[Any] = []
    for row, payload in enumerate(payloads):
        try:
            maps.append({} if row in bad else _Example.FromString(payload).features.feature)
        except message.DecodeError:
            maps.append({})
            bad[row] = (None, "example", None, "is not a tf.train.Example")
    found = {
        name: _build_column(maps, name, column, bad=bad, exact=exact)
        for name, column in columns.items()
    }
    batch = pa.record_batch(found)
    if bad:
        batch = batch.take(pa.array([r for r in range(len(payloads)) if r not in bad], pa.int64()))
    return batch, bad


def _build_column(
    maps: Sequence[Any], name: str, column: config.Column, *, bad: dict[int, Problem], exact: bool
) -> pa.Array:
    wanted = LISTS[column.type]
    one = not (column.shape or column.list) or column.is_image
    values: list[Any] = [None] * len(maps)
    for row, features in enumerate(maps):
        feature = features.get(name)
        if feature is None:
            continue
        found = getattr(feature, wanted).value
        if found and one and len(found) == 1:
            values[row] = found[0]
        elif not one and (found or (column.list and feature.WhichOneof("kind") == wanted)):
            values[row] = list(found)
        elif problem := _find_problem(feature, wanted, len(found), column=column, exact=exact):
            bad.setdefault(row, (name, *problem))
    element = _TYPES.get(column.type, pa.binary())
    return pa.array(values, element if one else pa.list_(element))


def _find_problem(
    feature: Any, wanted: str, count: int, *, column: config.Column, exact: bool
) -> tuple[str, str | None, str] | None:
    if count:
        return "type", f"{count} values", f"has {count} values, {column.type} has one"
    kind = feature.WhichOneof("kind")
    if kind is None or not (exact or getattr(feature, kind).value):
        return None
    if kind == wanted:
        needed = "one" if column.size == 1 or column.is_image else f"{column.size:,}"
        return "type", "[]", f"has no values, {column.type} has {needed}"
    shown = str(list(getattr(feature, kind).value[:3]))
    return "type", shown, f"has a {kind}, {column.type} has a {wanted}"
