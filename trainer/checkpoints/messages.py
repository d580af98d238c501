"""The messages and types in the files of checkpoints, for commands that do not wait for TensorFlow.

Declared again from tensorflow/core/protobuf/tensor_bundle.proto, core/framework/tensor_shape.proto,
types.proto and python/training/checkpoint_state.proto, in a pool of their own so that they do not
collide with TensorFlow's.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# Types of values (`DataType`), by their numbers; the others have none in NumPy.
DTYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(kind)
    for number, kind in {
        1: np.float32,
        2: np.float64,
        3: np.int32,
        4: np.uint8,
        5: np.int16,
        6: np.int8,
        8: np.complex64,
        9: np.int64,
        10: np.bool_,
        14: ml_dtypes.bfloat16,
        17: np.uint16,
        18: np.complex128,
        19: np.float16,
        22: np.uint32,
        23: np.uint64,
    }.items()
}
# Those whose values are not all finite.
INEXACT = frozenset({1, 2, 8, 14, 18, 19})
STRING, VARIANT = 7, 21

_FIELD = descriptor_pb2.FieldDescriptorProto
_INT, _FIXED, _TEXT = _FIELD.TYPE_INT64, _FIELD.TYPE_FIXED32, _FIELD.TYPE_STRING
_REAL, _BOOL = _FIELD.TYPE_DOUBLE, _FIELD.TYPE_BOOL
# By message: name, number and type of its fields; a list means repeated, a text a message.
_MESSAGES: dict[str, dict[str, tuple[int, Any]]] = {
    "Dim": {"size": (1, _INT), "name": (2, _TEXT)},
    "Shape": {"dim": (2, ["Dim"]), "unknown_rank": (3, _BOOL)},
    "Extent": {"start": (1, _INT), "length": (2, _INT)},
    "Slice": {"extent": (1, ["Extent"])},
    "BundleHeader": {"num_shards": (1, _INT)},
    "BundleEntry": {
        "dtype": (1, _INT),
        "shape": (2, "Shape"),
        "shard_id": (3, _INT),
        "offset": (4, _INT),
        "size": (5, _INT),
        "crc32c": (6, _FIXED),
        "slices": (7, ["Slice"]),
    },
    "CheckpointState": {
        "model_checkpoint_path": (1, _TEXT),
        "all_model_checkpoint_paths": (2, [_TEXT]),
        "all_model_checkpoint_timestamps": (3, [_REAL]),
        "last_preserved_timestamp": (4, _REAL),
    },
}


def _build_pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="checkpoint.proto", package="x", syntax="proto3")
    for holder, fields in _MESSAGES.items():
        made = file.message_type.add(name=holder)
        for name, (number, kind) in fields.items():
            many = isinstance(kind, list)
            one = kind[0] if many else kind
            field = made.field.add(name=name, number=number)
            field.label = _FIELD.LABEL_REPEATED if many else _FIELD.LABEL_OPTIONAL
            field.type = _FIELD.TYPE_MESSAGE if isinstance(one, str) else one
            if isinstance(one, str):
                field.type_name = f".x.{one}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _get_class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"x.{name}"))


_POOL = _build_pool()
BundleHeader, BundleEntry = _get_class("BundleHeader"), _get_class("BundleEntry")
CheckpointState = _get_class("CheckpointState")
