"""The messages of checkpoints, as TensorFlow writes and reads them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2
from tensorflow.python.training import checkpoint_state_pb2

from trainer.checkpoints import messages

PLAIN = [number for name, number in types_pb2.DataType.items() if "REF" not in name and number]


def test_types_are_those_of_tensorflow():
    kinds = {number: tf.DType(number) for number in PLAIN}
    known = {n for n, kind in kinds.items() if kind.is_floating or kind.is_complex}
    known |= {n for n, kind in kinds.items() if kind.is_integer and not kind.is_quantized}
    odd = {n for n in known if re.fullmatch("u?int4|float8.*", kinds[n].name)}
    assert set(messages.DTYPES) == (known | {types_pb2.DT_BOOL}) - odd
    for number, dtype in messages.DTYPES.items():
        assert dtype == np.dtype(kinds[number].as_numpy_dtype)
        assert (number in messages.INEXACT) is (
            kinds[number].is_floating or kinds[number].is_complex
        )
    assert (messages.STRING, messages.VARIANT) == (types_pb2.DT_STRING, types_pb2.DT_VARIANT)


def _entry():
    entry = tensor_bundle_pb2.BundleEntryProto(
        dtype=types_pb2.DT_INT64, shard_id=3, offset=1 << 40, size=1 << 33, crc32c=0xFFFFFFFF
    )
    entry.shape.dim.add(size=7)
    entry.shape.dim.add(size=1 << 35)
    entry.slices.add().extent.add(start=5, length=2)
    return entry


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (_entry(), messages.BundleEntry),
        (tensor_bundle_pb2.BundleHeaderProto(num_shards=9), messages.BundleHeader),
        (
            checkpoint_state_pb2.CheckpointState(
                model_checkpoint_path="é-2",
                all_model_checkpoint_paths=["a-1", "é-2"],
                all_model_checkpoint_timestamps=[1.5, 2.5],
                last_preserved_timestamp=3.5,
            ),
            messages.CheckpointState,
        ),
    ],
    ids=["entry", "header", "list"],
)
def test_messages_are_those_of_tensorflow(theirs, ours):
    read = ours.FromString(theirs.SerializeToString())
    for field in read.DESCRIPTOR.fields:
        assert field.number == theirs.DESCRIPTOR.fields_by_name[field.name].number
        assert str(getattr(read, field.name)) == str(getattr(theirs, field.name))
    assert type(theirs).FromString(read.SerializeToString()) == theirs
    if ours is messages.CheckpointState:
        assert text_format.MessageToString(read) == text_format.MessageToString(theirs)
