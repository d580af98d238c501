"""Raw data that are not there yet are missed before anything is started."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from pipeline import errors
from pipeline.config import config_file, raw_data
from tests.support import commands


@pytest.fixture
def flights(tmp_path):
    """The shipped config in a folder of its own, without the table that it downloads."""
    (tmp_path / "configs").mkdir()
    return pathlib.Path(shutil.copy(config_file.SHIPPED / "flights.yaml", tmp_path / "configs"))


def test_absent_data_that_can_be_brought(flights, tmp_path):
    data = config_file.load(str(flights)).data
    with pytest.raises(
        errors.UsageError, match=r"flights\.csv': no such file. Bring it with make data CONFIG=f$"
    ):
        raw_data.require(data, "f")
    (tmp_path / "data" / "flights").mkdir(parents=True)
    (tmp_path / "data" / "flights" / "flights.csv").touch()
    raw_data.require(data, "f")


def test_data_of_ones_own_are_not_brought(flights):
    """As its sample in place of the download."""
    raw_data.require(config_file.load("mnist").data, "mnist")
    own = ["data.inputs.train.files=absent.csv"]
    raw_data.require(config_file.load(str(flights), own).data, "f")


@pytest.mark.parametrize("command", ["train", "preprocess"])
def test_the_command_to_type_is_printed_and_nothing_is_written(flights, tmp_path, command):
    done = commands.run(
        "pipeline",
        command,
        f"--config={flights}",
        "--storage=out",
        folder=tmp_path,
        environment={"PIPELINE_VIA": "make"},
    )
    said = "error: 'data/flights/flights.csv': no such file. Bring it with make data "
    assert commands.read_error_line(done) == f"{said}CONFIG={flights}\n"
    assert not (tmp_path / "out").exists()
