"""What happened when."""

from __future__ import annotations

import pytest

from pipeline.reports import facts, timeline
from pipeline.runs import run_record
from tests.pipeline.reports import scene


def test_starts_losses_saves_and_evaluations(tmp_path):
    drawn = timeline.section(facts.gather(scene.make(tmp_path)))
    assert drawn.count("saved at step") == 3
    assert "launch 1 began" in drawn and "training begins at step 0" in drawn
    assert "worker-0: killed by SIGKILL" in drawn
    assert drawn.count("eval at step 200: loss 0.3") == 1 and "loss 0.4" not in drawn
    assert "seconds since 2023-11-14 22:13:20 UTC" in drawn
    assert "<td>22:14:00</td><td>worker-0</td>" in drawn


def draw(run, launches, earlier):
    """Draws a run whose earlier launches, of 20 s each, have these states."""
    record = run_record.read(run)
    record.launches = launches
    record.earlier = [
        run_record.Launch(started=began, ended=began + 20, topology={"chief": 1}, status=status)
        for began, status in zip((scene.BEGAN - 100, scene.BEGAN - 50), earlier, strict=True)
    ]
    run_record.write(run, record)
    return timeline.section(facts.gather(run))


def test_every_launch_and_how_it_ended(tmp_path):
    run = scene.make(tmp_path)
    drawn = draw(run, launches=4, earlier=("running", "stopped"))
    for said in ("2 began", "3 began", "3 ended: stopped", "4 began"):
        assert f"launch {said}" in drawn
    assert "launch 4 ended: done" in drawn and "launch 1 " not in drawn
    assert "minutes since 2023-11-14 22:11:40 UTC" in drawn


def test_what_died_has_a_row_and_a_mark_of_its_own_with_its_name_in_print(tmp_path):
    run = scene.make(tmp_path)
    drawn = draw(run, launches=3, earlier=("running", "failed"))
    assert ">deaths</text>" in drawn
    for printed, title in (
        ("launch 1", "launch 1 died"),
        ("launch 2", "launch 2 failed"),
        ("worker-0", "worker-0: killed by SIGKILL"),
    ):
        assert f"<title>{title}" in drawn and f">{printed}</text>" in drawn
    assert drawn.count('class="cross"') == 3 and "launch 1 ended" not in drawn


def test_names_of_what_died_at_nearly_the_same_time_do_not_overlap(tmp_path):
    run = scene.make(tmp_path)
    record = run_record.read(run)
    (lost,) = record.restarts
    second = lost.model_copy(update={"index": 1, "time": lost.time + 0.5})
    record.restarts = [lost, second]
    run_record.write(run, record)
    drawn = timeline.section(facts.gather(run))
    assert drawn.count('class="cross"') == 2
    assert ">worker-0</text>" in drawn and ">worker-1</text>" not in drawn


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_launch_that_is_at_work_has_not_ended(tmp_path, monkeypatch, state):
    monkeypatch.setattr(facts.liveness, "state_of_run", lambda *_, now: (state, ""))
    drawn = timeline.section(facts.gather(scene.make(tmp_path)))
    assert "launch 1 began" in drawn and "launch 1 ended" not in drawn


def test_axes_count_in_units_that_suit():
    assert timeline.TimeAxis(0, 100).label.startswith("seconds")
    assert timeline.TimeAxis(0, 7000).label.startswith("minutes")
    assert timeline.TimeAxis(0, 50_000).label.startswith("hours")
    long = timeline.TimeAxis(0, 864_000)
    assert long.label == "days since 1970-01-01 00:00:00 UTC"
    assert long.ticks[1] == (172_800, "2")
