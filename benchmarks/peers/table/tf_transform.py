"""tf.Transform: a first pass finds means, deviations and vocabularies, a second writes records of
normalised numbers and of ids. Batches of pyarrow, Beam's runner in one process."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peers import measure
from benchmarks.peers.table import written

_TYPES = {"string": pa.large_binary(), "int64": pa.int64(), "float32": pa.float32()}
_ROWS = 4096  # of a batch


def convert(given: dict[str, Any], folder: pathlib.Path) -> None:
    """Makes the records."""
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
    from tfx_bsl.tfxio.tensor_adapter import TensorAdapterConfig

    types = {name: pa.large_list(_TYPES[of["kind"]]) for name, of in given["columns"].items()}
    config = TensorAdapterConfig(
        pa.schema(list(types.items())), {name: _represent(schema_pb2, name) for name in types}
    )
    encoder = RecordBatchToExamplesEncoder()
    with beam.Pipeline() as pipeline, tft_beam.Context(temp_dir=str(folder / "temporary")):
        rows = (
            pipeline
            | beam.io.ReadFromParquetBatched(given["table"], columns=list(types))
            | beam.FlatMap(_cut, types)
        )
        whole = (rows, config) | tft_beam.AnalyzeAndTransformDataset(
            lambda features: _transform(features, given), output_record_batches=True
        )
        (made, _), transform = whole
        transform | tft_beam.WriteTransformFn(str(folder / "transform"))
        for split in ("train", "eval", "test"):
            (
                made
                | f"cut {split}" >> beam.MapTuple(lambda rows, _, split=split: _choose(rows, split))
                | f"encode {split}" >> beam.FlatMap(encoder.encode)
                | f"write {split}" >> beam.io.WriteToTFRecord(str(folder / split))
            )


def _represent(schema: Any, name: str) -> Any:
    sparse = schema.TensorRepresentation.VarLenSparseTensor(column_name=name)
    return schema.TensorRepresentation(varlen_sparse_tensor=sparse)


def _cut(table: pa.Table, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(_ROWS):
        arrays = [_wrap(batch.column(name), of) for name, of in types.items()]
        yield pa.RecordBatch.from_arrays(arrays, names=list(types))


def _wrap(column: pa.Array, of: pa.DataType) -> pa.Array:
    """Returns a column as lists: those that it has, or one value each and none where it is null."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return column.cast(of)
    there = np.asarray(column.is_valid())
    offsets = np.concatenate([[0], np.cumsum(there)])
    values = column.drop_null().cast(of.value_type)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)


def _transform(features: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf
    import tensorflow_transform as tft

    numbers, made = {of["name"] for of in given["numbers"]}, {}
    for name, x in features.items():
        if given["columns"][name]["kind"] == "string":
            made[name] = tft.compute_and_apply_vocabulary(x, vocab_filename=name)
        elif name in numbers:
            whole = tf.cast(x, tf.float32)
            logs = tf.SparseTensor(whole.indices, tf.math.log1p(whole.values), whole.dense_shape)
            made[name] = tft.scale_to_z_score(logs)
        else:
            made[name] = x
    return made


def _choose(rows: pa.RecordBatch, split: str) -> pa.RecordBatch:
    day = pc.list_flatten(rows.column(rows.schema.get_field_index("day")))
    chosen = {"train": pc.less(day, 5), "eval": pc.equal(day, 5), "test": pc.greater(day, 5)}
    return rows.filter(chosen[split])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        settings = measure.read_settings()
        measure.report(**written.measure_conversion(convert, settings, pathlib.Path(made)))
