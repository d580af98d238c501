"""What a report is made of, against figures that are known."""

from __future__ import annotations

import json
import pathlib

import pytest

from pipeline import errors
from pipeline.reports import facts, goodput
from pipeline.runs import run_record
from tests.pipeline.reports import scene


def _parts(run, **changes):
    record = run_record.read(run)
    for name, value in changes.items():
        setattr(record, name, value)
    run_record.write(run, record)
    found = facts.measured(facts.gather(run, now=scene.BEGAN + 60))
    return {part.name: part.seconds for part in goodput.split(found)}


def test_where_the_time_of_a_run_went(tmp_path):
    # 100 s of two processes. Best: 5 steps a second; 200 steps would take 40 s at that pace.
    assert _parts(scene.make(tmp_path)) == pytest.approx(
        {
            "useful": 80,
            "start-up": 20,
            "end": 40,
            "lost work": 0,
            "recovery": 5,  # of the worker: the chief trains on
            "saving": 2,  # of the chief
            "other": 53,
        }
    )


def test_synchronous_processes_wait_for_each_other(tmp_path):
    run = scene.make(tmp_path, "r", "cluster.strategy=multi_worker_mirrored")
    restarts = run_record.read(run).restarts
    restarts[0].gang, restarts[0].steps_lost = True, 10
    found = _parts(run, restarts=restarts)
    assert (found["recovery"], found["saving"]) == (10, 4)
    assert found["lost work"] == pytest.approx(2 * 10 / 5)


def test_steps_that_were_not_saved_are_lost_work(tmp_path):
    run = scene.make(tmp_path)
    (pathlib.Path(run.path) / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-140"\n')
    found = _parts(run)
    assert (found["useful"], found["lost work"]) == (pytest.approx(56), pytest.approx(24))


def test_losses_of_earlier_launches_are_not_of_this_one(tmp_path):
    run = scene.make(tmp_path)
    restarts = run_record.read(run).restarts
    restarts[0].time = scene.BEGAN - 100
    assert _parts(run, restarts=restarts)["recovery"] == 0


def test_a_run_that_made_no_step_has_no_goodput(tmp_path):
    run = scene.make(tmp_path)
    for path in pathlib.Path(run.path).glob("events*"):
        path.unlink()
    assert facts.measured(facts.gather(run)) is None


def test_slices_are_those_of_the_final_export(tmp_path):
    run = scene.make(tmp_path)
    extras = pathlib.Path(run.path) / "export/final/200/assets.extra"
    extras.mkdir(parents=True)
    row = {"slice": "all", "records": 5, "metrics": {}, "baseline": {}}
    (extras / "metrics.json").write_text(json.dumps({"slices": {"eval": [row], "test": []}}))
    record = run_record.read(run)
    record.exports = {"final": "export/final/200", "best": None}
    run_record.write(run, record)
    assert facts.gather(run).slices == {"eval": [row]}
    (extras / "metrics.json").write_text("{")
    assert facts.gather(run).slices == {}


def test_a_run_that_has_never_begun(tmp_path):
    run = scene.make(tmp_path)
    (pathlib.Path(run.path) / "run.json").unlink()
    with pytest.raises(errors.UsageError, match=r"run 'r': has no run.json, so it has never begun"):
        facts.gather(run)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"run": 3}'])
def test_a_record_that_cannot_be_used_is_not_taken_for_none(tmp_path, content):
    run = scene.make(tmp_path)
    pathlib.Path(run.record_path).write_text(content)
    with pytest.raises(errors.DataError, match=r"run.json': is damaged, or of another version"):
        facts.gather(run)
