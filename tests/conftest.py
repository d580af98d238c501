"""What tests of several folders share: real MNIST cut small, and its records."""

from __future__ import annotations

import dataclasses
import gzip
import pathlib
import signal

import numpy as np
import pytest

from pipeline import config, config_file, manifest, run_folder
from tests.cloud.fixtures import cloud, service  # noqa: F401
from tests.preprocessing import idx_files

# A shell's background job, such as a CI step, has SIGINT ignored, and children inherit it: tests
# that press Ctrl-C would wait for ever. The same goes for SIGHUP under nohup.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

TRAIN, TEST = 3000, 500
_FILES = {"train": "train", "test": "t10k"}


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes do not name a test: packed ones hold the time, and names must be the same in every
    process."""
    return argname if isinstance(val, bytes) else None


@dataclasses.dataclass(frozen=True)
class SmallRecords:
    """The first images of MNIST, preprocessed. Other runs may be put below `storage` too."""

    storage: pathlib.Path
    job: config.Config
    contents: manifest.Manifest
    # uint8, [rows, 28, 28] and [rows], by the split of the raw files.
    images: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]

    @property
    def folder(self) -> str:
        """The records folder."""
        return run_folder.records_folder(str(self.storage), self.job.name)

    @property
    def config_path(self) -> str:
        """The YAML file of `job`."""
        return str(self.storage / "small.yaml")

    def config(self, *overrides: str) -> config.Config:
        """Returns `job` with overrides like those of `--set`."""
        return config_file.load(self.config_path, overrides)


@pytest.fixture(scope="session")
def small_records(tmp_path_factory) -> SmallRecords:
    """Preprocesses 3,000 train and 500 test images as `make preprocess` does.

    The eval split is 5 percent of train; shards and blocks are as uneven as real ones.
    """
    from preprocessing import job as preprocessing

    storage = tmp_path_factory.mktemp("small")
    images, labels, overrides = {}, {}, ["name=small"]
    for split, rows in (("train", TRAIN), ("test", TEST)):
        images[split] = _values(f"{_FILES[split]}-images-idx3-ubyte.gz", (28, 28), rows)
        labels[split] = _values(f"{_FILES[split]}-labels-idx1-ubyte.gz", (), rows)
        for role, values in (("images", images[split]), ("labels", labels[split])):
            path = storage / f"{split}-{role}"
            path.write_bytes(idx_files.idx_bytes(values))
            overrides.append(f"data.inputs.{split}.{role}={path}")
    overrides += ["data.block_records=32", "data.shards={train: 3, eval: 1, test: 2}"]
    loaded = config_file.load("mnist_mlp", overrides)
    (storage / "small.yaml").write_text(config_file.dump(loaded))
    made = preprocessing.run(loaded, str(storage))
    return SmallRecords(storage, loaded, made, images, labels)


def _values(name: str, shape: tuple[int, ...], rows: int) -> np.ndarray:
    path = config_file.SHIPPED.parent / "data" / "mnist" / name
    head = 8 + 4 * len(shape)
    size = int(np.prod(shape, dtype=int))
    with gzip.open(path) as file:
        content = file.read(head + rows * size)
    return np.frombuffer(content, np.uint8, offset=head).reshape(rows, *shape)


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """A finished run whose model tells one of three classes by name: see `tests.exports`."""
    from tests import exports

    return exports.publish(tmp_path_factory.mktemp("classifier"), exports.CLASSIFIER)


@pytest.fixture(scope="session")
def regressor(tmp_path_factory):
    """A finished run whose model tells a number."""
    from tests import exports

    return exports.publish(tmp_path_factory.mktemp("regressor"), exports.REGRESSOR)
