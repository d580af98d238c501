"""Regenerates the golden files: see README.md next to this file for when that is right."""

from __future__ import annotations

import gzip
import pathlib
import shutil
import tempfile

import numpy as np

from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing.build import job
from tests.preprocessing import idx_files

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE / "mnist200.yaml"
RECORDS = HERE / "records"
_MNIST = HERE.parent.parent / "data" / "mnist"
_TRAIN, _ALL = 150, 200


def write_raw(folder: pathlib.Path) -> None:
    """Cuts the raw files out of MNIST's test set."""
    folder.mkdir(parents=True, exist_ok=True)
    for role, name, offset, shape in (
        ("images", "t10k-images-idx3-ubyte.gz", 16, (-1, 28, 28)),
        ("labels", "t10k-labels-idx1-ubyte.gz", 8, (-1,)),
    ):
        content = gzip.decompress((_MNIST / name).read_bytes())
        values = np.frombuffer(content, np.uint8, offset=offset).reshape(shape)
        train = idx_files.idx_bytes(values[:_TRAIN])
        test = idx_files.pack(idx_files.idx_bytes(values[_TRAIN:_ALL]))
        (folder / f"train-{role}").write_bytes(train)
        (folder / f"test-{role}.gz").write_bytes(test)


def write_records(folder: pathlib.Path) -> None:
    """Runs preprocessing on the raw files and keeps manifest and shards."""
    with tempfile.TemporaryDirectory() as storage_root:
        loaded = config_file.load(str(CONFIG))
        made = job.run(loaded, storage_root)
        records = run_folder.records_folder(storage_root, loaded.name)
        source = pathlib.Path(builds.find_current(records))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(source / manifest.FILE_NAME, folder)
        for split in made.splits.values():
            for shard in split.shards:
                shutil.copy(source / shard.path, folder / pathlib.Path(shard.path).name)


if __name__ == "__main__":
    write_raw(HERE / "raw")
    write_records(RECORDS)
