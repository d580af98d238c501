"""The flights job's features as arrays, for models that take no text: what its transforms make of
the records.

    python -m benchmarks.peers.quality.flights output
"""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder

JOB = "flights"
_BATCH = 4096


def prepare(storage: pathlib.Path) -> dict[str, Any]:
    """Makes data, records and arrays, unless they are there, and returns the settings."""
    for command in (["data"], ["preprocess", f"--storage={storage}"]):
        name, *flags = command
        subprocess.run(
            [sys.executable, "-m", "pipeline", name, f"--config={JOB}", *flags], check=True
        )
    arrays = storage / "peers" / "arrays" / pathlib.Path(_find_records(storage)).name
    if not (arrays / "done").exists():
        subprocess.run([sys.executable, "-m", __name__, str(storage), str(arrays)], check=True)
    return {"job": JOB, "storage": str(storage), "arrays": str(arrays), "seed": 1}


def _find_records(storage: pathlib.Path) -> str:
    return builds.find_current(run_folder.records_folder(str(storage), JOB))


def _write_arrays(storage: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes for each split `numbers` [rows, numbers] float32, `ids` [rows, ids] int32, and `label`
    [rows] float32."""
    records = _find_records(storage)
    contents = manifest.read(records)
    for split in ("train", "test"):
        features, label = _compute_features(records, contents, split)
        of_split = folder / split
        of_split.mkdir(parents=True, exist_ok=True)
        columns = [features[name] for name in sorted(features)]
        for name, kind, dtype in (("numbers", "f", np.float32), ("ids", "i", np.int32)):
            chosen = [x.astype(dtype) for x in columns if x.dtype.kind == kind]
            np.save(of_split / f"{name}.npy", np.concatenate(chosen, axis=1))
        np.save(of_split / "label.npy", label.astype(np.float32))
    (folder / "done").touch()


def _compute_features(
    records: str, contents: manifest.Manifest, split: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the features of a split by name, `[rows, width]`, and the labels, `[rows]`."""
    import tensorflow as tf

    from trainer.input import parsing
    from trainer.input.dataset import RecordDataset

    v1, found = tf.compat.v1, []
    dataset = RecordDataset(config_file.load(JOB), records, contents)
    transforms = dataset.transforms
    with tf.Graph().as_default(), v1.Session() as session:
        rows = tf.data.TFRecordDataset(list(dataset.list_blocks(split).paths)).batch(_BATCH)
        iterator = v1.data.make_initializable_iterator(
            rows.map(
                lambda rows: transforms.examples(
                    parsing.parse(rows, transforms.columns), training=False
                )
            )
        )
        batch = iterator.get_next()
        session.run([v1.tables_initializer(), iterator.initializer])
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(batch))
    labels = np.concatenate([label.reshape(-1) for _, label in found])
    names = found[0][0]
    joined = {name: np.concatenate([features[name] for features, _ in found]) for name in names}
    return {name: x.reshape(len(x), -1) for name, x in joined.items()}, labels


if __name__ == "__main__":
    _write_arrays(*map(pathlib.Path, sys.argv[1:]))
