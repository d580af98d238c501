"""Finds out which features the `tf.train.Example`s of TFRecord files have, and of what kinds."""

from __future__ import annotations

import itertools
from typing import Any

from pipeline import config, errors
from pipeline.records import file_kinds
from preprocessing.arrow import examples
from preprocessing.schema_inference.profile import Kind
from preprocessing.schema_inference.raw_format import Guess
from preprocessing.sources.tfrecord import TfrecordSource

# Records by which features are recognised.
_RECORDS = 1000
_KINDS: dict[str, tuple[Kind, ...]] = {
    "int64_list": ("int64",),
    "float_list": ("float32",),
    "bytes_list": ("string",),
}


def sniff(pattern: str, path: str) -> Guess:
    """Looks at the first records of the file at `path`.

    Features that some of them lack may be missing. Raises `DataError` if a record is no Example.
    """
    lists: dict[str, list[tuple[str, Any]]] = {}
    for number, payload in enumerate(_read_payloads(path), 1):
        if examples.is_sequence(payload):
            raise errors.DataError(f"{path!r}: record {number} {examples.SEQUENCE}")
        found = examples.parse_lists(payload)
        if found is None:
            raise errors.DataError(
                f"{path!r}: record {number} is not a tf.train.Example, which source tfrecord reads"
            )
        for name, kind, values in found:
            lists.setdefault(name, []).append((kind, values))
    guess = Guess("tfrecord", pattern)
    for name, rows in sorted(lists.items()):
        _decide(guess, name, [row for row in rows if len(row[1])], some=len(rows))
    return guess


def _read_payloads(path: str) -> list[bytes]:
    """Returns the first records, as the source reads them."""
    data = config.Data(
        source="tfrecord",
        inputs={"train": {"files": path}},
        columns={"x": config.Column(type="string")},
        label="x",
    )
    source = TfrecordSource(data)
    chunks = source.plan("train")
    blocks = itertools.chain.from_iterable(source.read_payloads(chunk) for chunk in chunks)
    return list(itertools.islice(blocks, _RECORDS))


def _decide(guess: Guess, name: str, rows: list[tuple[str, Any]], *, some: int) -> None:
    """Gives a feature its type. `rows` are those of `some` that have values."""
    kinds, lengths = {kind for kind, _ in rows}, {len(values) for _, values in rows}
    if not rows:
        guess.left_out[name] = "has no values"
    elif len(kinds) > 1:
        guess.left_out[name] = f"holds {' and '.join(sorted(kinds))}"
    elif kinds == {"bytes_list"} and file_kinds.is_picture(rows[0][1][0]):
        guess.left_out[name] = "holds encoded images, of type image: see configs/images.yaml"
    else:
        guess.kinds[name] = _KINDS[rows[0][0]]
        if len(lengths) > 1 or (lengths != {1} and len(rows) < some):
            guess.lists.add(name)
        elif lengths != {1}:
            guess.shapes[name] = lengths.pop()
