"""What tests of several folders share: real MNIST cut small, and its records."""

from __future__ import annotations

import dataclasses
import pathlib
import signal
from typing import Any

import hypothesis
import numpy as np
import pytest

from pipeline import config
from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from tests import small_mnist
from tests.cloud.fixtures import cloud, service  # noqa: F401
from tests.support import scheduling, sets
from tests.support.resume_table import pytest_terminal_summary  # noqa: F401

# A shell's background job, such as a CI step, has SIGINT ignored, and children inherit it: tests
# that press Ctrl-C would wait for ever. The same goes for SIGHUP under nohup.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes, or many do to be made, is for no test to judge: machines are busy.
hypothesis.settings.register_profile(
    "shared",
    deadline=None,
    max_examples=60,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,  # each example writes its files again
    ],
)
hypothesis.settings.load_profile("shared")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes do not name a test: packed ones hold the time, and names must be the same in every
    process."""
    return argname if isinstance(val, bytes) else None


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Leaves out files without a test of the set: importing TensorFlow alone takes seconds."""
    return None if sets.may_be_in(config.getoption("markexpr"), collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts every test into its set, before -m chooses among them, and long files first."""
    sets.mark(config, items)
    items.sort(key=lambda item: scheduling.find_rank(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Lets files that share a costly fixture share a process."""
    return scheduling.Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


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
        """The folder of their build."""
        return builds.find_current(run_folder.records_folder(str(self.storage), self.job.name))

    @property
    def config_path(self) -> str:
        """The YAML file of `job`."""
        return str(self.storage / "small.yaml")

    def config(self, *overrides: str) -> config.Config:
        """Returns `job` with overrides like those of `--set`."""
        return config_file.load(self.config_path, overrides)


@pytest.fixture(scope="session")
def small_records(tmp_path_factory) -> SmallRecords:
    """Preprocesses the images of `small_mnist` as `make preprocess` does."""
    from preprocessing.build import job as preprocessing

    storage = tmp_path_factory.mktemp("small")
    loaded, images, labels = small_mnist.write(storage)
    made = preprocessing.run(loaded, str(storage))
    return SmallRecords(storage, loaded, made, images, labels)


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    """Commands that need TensorFlow, forked from a process that has imported it."""
    from tests.trainer.commands import Commands

    started = Commands(tmp_path_factory.mktemp("commands"))
    yield started
    started.close()


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
