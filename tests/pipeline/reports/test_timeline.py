"""What happened when."""

from __future__ import annotations

from pipeline.reports import facts, timeline
from tests.pipeline.reports import scene


def test_starts_losses_saves_and_evaluations(tmp_path):
    drawn = timeline.section(facts.gather(scene.make(tmp_path)))
    assert drawn.count("saved at step") == 3
    assert "launch 1 began" in drawn and "training begins at step 0" in drawn
    assert "worker-0: killed by SIGKILL" in drawn
    assert drawn.count("eval at step 200: loss 0.3") == 1 and "loss 0.4" not in drawn
    assert "seconds since 2023-11-14 22:13:20 UTC" in drawn
    assert "<td>22:14:00</td><td>worker-0</td>" in drawn


def test_axes_count_in_units_that_suit():
    assert timeline.Clock(0, 100).label.startswith("seconds")
    assert timeline.Clock(0, 7000).label.startswith("minutes")
    assert timeline.Clock(0, 50_000).label.startswith("hours")
    long = timeline.Clock(0, 864_000)
    assert long.label == "days since 1970-01-01 00:00:00 UTC"
    assert long.ticks[1] == (172_800, "2")
