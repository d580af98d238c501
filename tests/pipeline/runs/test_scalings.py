"""The request for another number of workers, as a launcher takes it."""

from __future__ import annotations

import pytest

from pipeline.config import config_file
from pipeline.runs import run_folder, run_record, scalings
from pipeline.runs.run_folder import RunFolder


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path / "r"))


@pytest.mark.parametrize("workers", [0, 3])
def test_a_request_is_taken_once(run, workers):
    assert scalings.take(run) is None
    run.write(run_folder.SCALE, {"workers": workers})
    assert scalings.take(run) == workers
    assert scalings.take(run) is None


@pytest.mark.parametrize("content", [{}, {"workers": "many"}, {"workers": None}])
def test_a_request_that_cannot_be_read_is_dropped(run, content):
    run.write(run_folder.SCALE, content)
    assert scalings.take(run) is None
    assert run.read(run_folder.SCALE) is None


def test_the_record_has_the_new_number_and_every_change(run):
    record = run_record.begin(config_file.load("mnist"), run)
    others = {role: count for role, count in record.topology.items() if role != "worker"}
    scalings.note(record, 5, step=100, now=10.0)
    scalings.note(record, 2, step=None, now=20.0)
    assert record.topology == {**others, "worker": 2}
    assert [(one.workers, one.step, one.time) for one in record.scalings] == [
        (5, 100, 10.0),
        (2, None, 20.0),
    ]
