"""What programs by hand share: rows become examples, and these files, one for each split."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.peers import measure


def measure_conversion(
    convert: Callable[[dict[str, Any], pathlib.Path], None],
    given: dict[str, Any],
    folder: pathlib.Path,
) -> dict[str, float]:
    """Returns rows/s of the conversion, with start and imports, and processor seconds."""
    import pyarrow.parquet as pq

    count = pq.read_metadata(given["table"]).num_rows
    begun = measure.take_mark(0)
    convert(given, folder)
    return measure.compute_rates(begun, measure.take_mark(count), 1)


def write(rows: Iterable[dict[str, Any]], given: dict[str, Any], folder: pathlib.Path) -> None:
    """Writes rows, columns by name, as examples: the day says in which split."""
    import tensorflow as tf

    makers = {
        "string": lambda x: tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[one.encode() for one in x])
        ),
        "int64": lambda x: tf.train.Feature(int64_list=tf.train.Int64List(value=x)),
        "float32": lambda x: tf.train.Feature(float_list=tf.train.FloatList(value=x)),
    }
    columns = [(name, makers[of["kind"]], of["list"]) for name, of in given["columns"].items()]
    paths = {split: str(folder / f"{split}.tfrecord") for split in ("train", "eval", "test")}
    files = {split: tf.io.TFRecordWriter(path) for split, path in paths.items()}
    for row in rows:
        features = {}
        for name, make, several in columns:
            value = row[name]
            if value is not None:
                features[name] = make(value if several else [value])
        example = tf.train.Example(features=tf.train.Features(feature=features))
        split = "train" if row["day"] < 5 else "eval" if row["day"] == 5 else "test"
        files[split].write(example.SerializeToString())
    for file in files.values():
        file.close()
