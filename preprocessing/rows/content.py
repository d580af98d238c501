"""What is in a row as one number, by which rows without a key have their place.

The n-th of rows with the same content has a place of its own: see `preprocessing.build.copies`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline import config
from preprocessing.arrow import arrow_types, binary, lists
from preprocessing.rows import hashing

# Stands for a value that is missing; no more likely than any other number.
_MISSING = np.uint64(0x6D697373696E6721)
# Columns in which every value occurs so often on average are hashed by value, not by row.
_FEW = 4


def hash_rows(batch: pa.RecordBatch, columns: Mapping[str, config.Column]) -> np.ndarray:
    """Returns 64 bits a row as uint64 [rows]: equal for rows whose records are equal.

    `batch` has the types of `arrow_types.arrow_schema`. The order of `columns` does not matter.
    """
    found = np.zeros(batch.num_rows, np.uint64)
    # As in the records, which have their features in this order.
    for name in sorted(columns, key=str.encode):
        found = hashing.mix(found ^ _hash_column(batch.column(name), columns[name]))
    return found


def build_keys(contents: np.ndarray, numbers: np.ndarray | None = None) -> pa.LargeBinaryArray:
    """Returns a key for each of the `contents`; of copies, whose `numbers` begin with 1, others."""
    words = contents[:, None] if numbers is None else np.stack([contents, numbers], axis=1)
    content = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return binary.cut(content, np.full(len(words), content.shape[1]))


def _hash_column(array: pa.Array, column: config.Column) -> np.ndarray:
    if not array.null_count:
        return _hash_values(array, column)
    found = np.full(len(array), _MISSING)
    found[array.is_valid().to_numpy(zero_copy_only=False)] = _hash_values(array.drop_null(), column)
    return found


def _hash_values(array: pa.Array, column: config.Column) -> np.ndarray:
    if column.list:
        return _hash_lists(lists.count_items(array), _hash_values(array.flatten(), column.item))
    if column.type in ("string", "image"):
        texts = _hash_texts(array.flatten() if column.shape else array)
        return _hash_words(texts.reshape(len(array), column.size))
    numbers = np.ascontiguousarray(arrow_types.extract_numbers(array, column))
    if numbers.dtype != np.uint8 and column.size == 1:
        # As bits, since 0.0 and -0.0 are equal but not the same record.
        width = numbers.dtype.itemsize
        return numbers.view(f"<u{width}").ravel().astype(np.uint64, copy=False)
    width = column.size * numbers.itemsize
    return _hash_words(_pack_words(numbers.view(np.uint8).reshape(len(array), width)))


def _hash_lists(sizes: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Returns one number a row of the numbers of its items, uint64 `[items]`, and how many."""
    found = hashing.mix(sizes.astype(np.uint64))
    starts = np.cumsum(sizes) - sizes
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        found[rows] = hashing.mix(found[rows] ^ items[starts[rows] + place])
    return found


def _hash_texts(array: pa.Array) -> np.ndarray:
    """Hashes texts; where few differ, each of these once."""
    encoded = array.dictionary_encode()
    if len(encoded.dictionary) > len(array) // _FEW:
        return hashing.hash_keys(array.cast(pa.large_binary()), "", hashing.FOR_ORDER)
    different = encoded.dictionary.cast(pa.large_binary())
    return hashing.hash_keys(different, "", hashing.FOR_ORDER)[encoded.indices.to_numpy()]


def _pack_words(content: np.ndarray) -> np.ndarray:
    """Returns bytes [rows, bytes] as uint64 [rows, words], filled up with zeros."""
    rows, width = content.shape
    padded = np.zeros((rows, -(-width // 8) * 8), np.uint8)
    padded[:, :width] = content
    return padded.view("<u8")


def _hash_words(words: np.ndarray) -> np.ndarray:
    """Returns one number a row of uint64 [rows, words]."""
    found = np.ascontiguousarray(words[:, 0])
    for index in range(1, words.shape[1]):
        found = hashing.mix(found) ^ words[:, index]
    return found
