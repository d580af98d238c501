"""Turns a whole batch into framed `tf.train.Example` records, with no Python object per value.

A row's bytes are the concatenation of parts: constant tags, lengths, and the values themselves.
Parts are Arrow arrays and are joined per row in C++, several times as fast as protobuf
objects. The bytes are those of `Example.SerializeToString(deterministic=True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from pipeline.records import tfrecord
from preprocessing.arrow import arrow_types, binary, lists

# Tags of wire type 2 (length-delimited) by field number, from tensorflow/core/example/*.proto.
# Example.features, Features.feature (a map), its entry's key, and the value of any list are all
# field 1; an entry's value is field 2.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
# The member of Feature that holds each type: bytes_list, float_list, int64_list.
_LIST = {
    "uint8": _FIELD_1,
    "image": _FIELD_1,
    "string": _FIELD_1,
    "float32": _FIELD_2,
    "int64": _FIELD_3,
}

# A length that stands for a value that is not there.
_ABSENT = -1
# Records that are quicker to copy than to make an array of.
_SHORT_BYTES = 4096
# Columns in which every value occurs so often on average are encoded by value, not by row. The
# first values tell, since to find all that differ takes longer than to encode them by row.
_FEW, _FIRST = 4, 1024
_NOTHING = pa.scalar(b"", pa.large_binary())
_SOME = {"string": "", "float32": 0.0, "int64": 0}

# Makes the bytes in front of content of a given length.
Prefix = Callable[[int], bytes]


def frame(payloads: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Returns payloads as TFRecords, ready to be written one after the other."""
    crc = google_crc32c.value
    short = len(binary.view_data(payloads)) < _SHORT_BYTES * len(payloads)
    cut = binary.iterate_copies if short else binary.iterate_views
    crcs = np.fromiter(map(crc, cut(payloads)), np.uint32, len(payloads))
    masked = ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(tfrecord.MASK_DELTA)
    footers = binary.cut(masked.astype("<u4"), np.full(len(masked), tfrecord.FOOTER_BYTES))
    return _join(_make_by_length(_measure_lengths(payloads), tfrecord.header), payloads, footers)


def encode(batch: pa.RecordBatch, columns: Mapping[str, config.Column]) -> pa.LargeBinaryArray:
    """Returns one serialized `tf.train.Example` a row.

    `uint8` becomes a bytes feature of `size` bytes, `image` one of as many as there are; the
    others a list of `size` values, or of all items. One that is null has no feature.
    """
    parts: list[pa.Array | pa.Scalar] = []
    # A deterministic map is written in the order of its keys.
    for name in sorted(columns, key=str.encode):
        parts += _build_entry(batch.column(name), name, columns[name])
    total = sum((_measure_lengths(part) for part in parts), np.zeros(1, np.int64))
    return _join(_make_by_length(total, lambda size: _FIELD_1 + encode_varint(size)), *parts)


def _build_entry(array: pa.Array, name: str, column: config.Column) -> list[pa.Array | pa.Scalar]:
    """Returns parts that together are the column's entry of the map; nothing where it is null."""
    if column.shape or column.list or column.is_image:
        return _build_parts(array, name, column)
    # As bits, since 0.0 and -0.0 are equal but not the same record.
    bits = array.view(pa.int32()) if column.type == "float32" else array
    first = bits.slice(0, _FIRST)
    if len(first.unique()) > len(first) // _FEW:
        return _build_parts(array, name, column)
    encoded = bits.dictionary_encode()
    # Every different value is encoded once.
    different = encoded.dictionary.view(array.type)
    entries = _join(*_build_parts(different, name, column)).take(encoded.indices)
    return [entries.fill_null(b"") if array.null_count else entries]


def _build_parts(array: pa.Array, name: str, column: config.Column) -> list[pa.Array | pa.Scalar]:
    content, inner = _encode_values(_fill_nulls(array, column), column)
    prefix = _make_entry_prefix(name.encode(), _LIST[column.type], inner)
    lengths = _measure_lengths(content)
    if array.null_count:
        present = array.is_valid()
        content = pc.if_else(present, content, _NOTHING)
        lengths = np.where(present.to_numpy(zero_copy_only=False), lengths, _ABSENT)
    return [_make_by_length(lengths, prefix), content]


def encode_varint(number: int) -> bytes:
    """Returns a non-negative number as a protobuf varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _make_entry_prefix(name: bytes, list_tag: bytes, head: Prefix) -> Prefix:
    """Returns what makes, for content of a given length, all that precedes it in its entry.

    `head` gives the innermost part, that of the list's values.
    """
    key = _FIELD_1 + encode_varint(len(name)) + name

    def prefix(size: int) -> bytes:
        inner = head(size)
        feature_head = list_tag + encode_varint(len(inner) + size) + inner
        value_head = _FIELD_2 + encode_varint(len(feature_head) + size) + feature_head
        return _FIELD_1 + encode_varint(len(key) + len(value_head) + size) + key + value_head

    return prefix


def _fill_nulls(array: pa.Array, column: config.Column) -> pa.Array:
    """Puts any value where there is none, so that the column can be worked on as a whole."""
    if not array.null_count or column.list:
        return array  # a list that is null has no items
    if column.shape:
        some = pa.array([[_SOME[column.type]] * column.size], array.type)
        return pc.if_else(array.is_valid(), array, some[0])
    return array.fill_null(_SOME[column.type])


def _encode_values(array: pa.Array, column: config.Column) -> tuple[pa.LargeBinaryArray, Prefix]:
    """Returns the values of each row as they lie in their list, and what makes their head."""
    many = column.list or bool(column.shape)
    if column.type in ("string", "image"):
        flat = (array.flatten() if many else array).cast(pa.large_binary())
        # Every string has a head of its own, so the list has none.
        return (
            (_encode_strings(flat, _count_values(array, column)), _make_no_head)
            if many
            else (flat, _make_value_head)
        )
    if column.type == "int64":
        numbers = array.flatten().to_numpy() if many else array.to_numpy()
        return _encode_varints(numbers, _count_values(array, column)), _make_packed_head
    if column.list:
        items = array.flatten().to_numpy().astype("<f4")
        return binary.cut(items, _count_values(array, column) * items.itemsize), _make_packed_head
    numbers = arrow_types.extract_numbers(array, column).astype(
        "u1" if column.type == "uint8" else "<f4"
    )
    return binary.cut(
        numbers, np.full(len(array), column.size * numbers.itemsize)
    ), _make_value_head


def _make_value_head(size: int) -> bytes:
    return _FIELD_1 + encode_varint(size)


def _make_packed_head(size: int) -> bytes:
    """As protobuf writes numbers: nothing if there are none."""
    return _make_value_head(size) if size else b""


def _count_values(array: pa.Array, column: config.Column) -> np.ndarray:
    """Returns how many values each row has, `[rows]`."""
    return lists.count_items(array) if column.list else np.full(len(array), column.size)


def _make_no_head(size: int) -> bytes:
    return b""


def _encode_strings(flat: pa.LargeBinaryArray, counts: np.ndarray) -> pa.LargeBinaryArray:
    """Returns `counts` strings of each row with their heads, one after the other."""
    framed = _join(_make_by_length(_measure_lengths(flat), _make_value_head), flat)
    return binary.cut(binary.view_data(framed), lists.sum_items(_measure_lengths(framed), counts))


def _encode_varints(numbers: np.ndarray, counts: np.ndarray) -> pa.LargeBinaryArray:
    """Returns the varints of `counts` numbers of each row, int64, one after the other.

    Negative numbers take ten bytes, as protobuf's int64 does.
    """
    unsigned = numbers.reshape(-1, 1).astype(np.int64).view(np.uint64)
    limits = np.uint64(1) << np.arange(7, 64, 7, dtype=np.uint64)
    sizes = 1 + (unsigned >= limits).sum(axis=1)
    places = np.arange(sizes.max(initial=1))
    groups = ((unsigned >> (7 * places).astype(np.uint64)) & np.uint64(0x7F)).astype(np.uint8)
    groups[places < sizes[:, None] - 1] |= 0x80
    return binary.cut(groups[places < sizes[:, None]], lists.sum_items(sizes, counts))


def _make_by_length(lengths: np.ndarray, make: Prefix) -> pa.Array | pa.Scalar:
    """Returns `make(length)` for each row, calling it once per different length; none if absent.

    It is a scalar if all lengths are the same, which joins much faster.
    """
    if len(lengths) and (lengths == lengths[0]).all():
        return pa.scalar(_make_prefix(make, int(lengths[0])), pa.large_binary())
    different, inverse = np.unique(lengths, return_inverse=True)
    made = pa.array([_make_prefix(make, size) for size in different.tolist()], pa.large_binary())
    return made.take(pa.array(inverse))


def _make_prefix(make: Prefix, size: int) -> bytes:
    return b"" if size == _ABSENT else make(size)


def _measure_lengths(part: pa.Array | pa.Scalar) -> np.ndarray:
    """Returns the length of each value; of a scalar, an array that broadcasts."""
    return (
        np.array([len(part.as_py())])
        if isinstance(part, pa.Scalar)
        else binary.compute_lengths(part)
    )


def _join(*parts: pa.Array | pa.Scalar) -> pa.LargeBinaryArray:
    return pc.binary_join_element_wise(*parts, _NOTHING)
