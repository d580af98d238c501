"""Event files are read as TensorFlow wrote them."""

from __future__ import annotations

import pytest

from pipeline.reports import events
from pipeline.reports.events import Moment, Point
from tests.pipeline.reports import event_files
from tests.pipeline.reports.event_files import scalar, session


def test_curves_saves_and_starts(tmp_path):
    event_files.write(
        tmp_path,
        session(10.0, 0, "CHECKPOINT"),
        session(11.0, 1, "START"),
        scalar(12.0, 100, loss=0.5, global_step__sec=10),
        scalar(22.0, 200, loss=0.25),
    )
    found = events.read(str(tmp_path))
    assert found.curve("loss") == [Point(100, 12.0, 0.5), Point(200, 22.0, 0.25)]
    assert found.curve("global_step/sec") == [Point(100, 12.0, 10.0)]
    assert found.saves == [Moment(0, 10.0)] and found.starts == [Moment(1, 11.0)]


def test_files_of_several_starts_are_joined_and_steps_made_again_replace_the_old_ones(tmp_path):
    old = [scalar(float(n), n, loss=float(n)) for n in (100, 200, 300)]
    event_files.write(tmp_path, *old)
    new = [scalar(400.0, 200, loss=7.0), scalar(500.0, 300, loss=8.0)]
    event_files.write(tmp_path, *new, name="2.host")
    found = events.read(str(tmp_path)).curve("loss")
    assert [(p.step, p.value) for p in found] == [(100, 100.0), (200, 7.0), (300, 8.0)]


@pytest.mark.parametrize("cut", [1, 9, 25])
def test_a_file_that_is_being_written_ends_where_it_is_whole(tmp_path, cut):
    path = event_files.write(tmp_path, scalar(1.0, 1, loss=1.0), scalar(2.0, 2, loss=2.0))
    path.write_bytes(path.read_bytes()[:-cut])
    assert [p.step for p in events.read(str(tmp_path)).curve("loss")] == [1]


def test_no_events(tmp_path):
    found = events.read(str(tmp_path / "absent"))
    assert found.saves == [] and found.curve("loss") == []
