"""What a report is made of, against figures that are known."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

from pipeline import errors
from pipeline.reports import facts
from pipeline.runs import accounts, run_record
from tests.pipeline.reports import scene


def _parts(run, now=60.0, **changes):
    record = run_record.read(run)
    for name, value in changes.items():
        setattr(record, name, value)
    run_record.write(run, record)
    parts = facts.goodput_of(facts.gather(run, now=scene.BEGAN + now))
    return {part.name: part.seconds for part in parts if part.seconds}


ALL = {
    **{"useful": 80, "start-up": 18.8, "end": 40, "recovery": 5, "saving": 2, "input": 10},
    **{"exchange": 12, "waiting for others": 5, "slower steps": 27.2},
}


def test_where_the_time_of_a_run_went(tmp_path):
    # 100 s of two processes. Best: 0.003125 s an example, of 25,600; 1.2 s of first steps.
    assert _parts(scene.make(tmp_path)) == pytest.approx(ALL)


def test_synchronous_processes_wait_for_each_other(tmp_path):
    run = scene.make(tmp_path, "r", "cluster.strategy=multi_worker_mirrored")
    found = _parts(run)
    assert found["saving"] == 4
    assert found["waiting for others"] > 5


def test_steps_that_were_not_saved_are_lost_work(tmp_path):
    run = scene.make(tmp_path)
    (pathlib.Path(run.path) / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-140"\n')
    found = _parts(run)
    assert (found["useful"], found["lost work"]) == (pytest.approx(56), pytest.approx(24))


def test_a_copy_has_not_made_the_steps_it_began_with(tmp_path):
    run = scene.make(tmp_path)
    run.write("copied.json", {"of": "other", "step": 100})
    found = _parts(run)
    assert (found["useful"], found["lost work"]) == (pytest.approx(40), pytest.approx(40))


def test_what_a_run_that_trains_has_not_saved_is_not_lost(tmp_path, monkeypatch):
    run = scene.make(tmp_path)
    (pathlib.Path(run.path) / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-140"\n')
    monkeypatch.setattr(facts.liveness, "state_of_run", lambda *_, now: ("running", ""))
    found = _parts(run, 100, ended=None)
    assert (found["useful"], "lost work" in found) == (pytest.approx(80), False)


def _cut(run, task, until):
    """Leaves of a process what it had written `until` then."""
    own = [one for one in scene.ACCOUNTS if one.task == task][-1]
    end = scene.BEGAN + until
    start = own.seconds["start"]
    seconds = {"start": start, "step": end - own.began - start}
    accounts.write(run, own.model_copy(update={"until": end, "seconds": seconds, "ended": False}))


def test_a_failure_is_no_recovery(tmp_path):
    """Of the chief, say by a loss that is not finite: nobody started it again."""
    run = scene.make(tmp_path)
    _cut(run, "chief-0", 90)
    found = _parts(run, status="failed")
    assert (found["recovery"], found["end"]) == (ALL["recovery"], ALL["end"] - 10)


def test_what_a_process_at_work_has_not_written_is_no_recovery(tmp_path, monkeypatch):
    run = scene.make(tmp_path)
    monkeypatch.setattr(facts.liveness, "state_of_run", lambda *_, now: ("running", ""))
    _cut(run, "chief-0", 90)
    _cut(run, "worker-0", 90)
    found = _parts(run, 90.6, ended=None)
    assert (found["recovery"], "end" in found) == (ALL["recovery"], False)
    assert sum(found.values()) == pytest.approx(180)


def test_a_process_at_work_that_is_lost_recovers(tmp_path, monkeypatch):
    run = scene.make(tmp_path)
    monkeypatch.setattr(facts.liveness, "state_of_run", lambda *_, now: ("running", ""))
    _cut(run, "chief-0", 90)
    _cut(run, "worker-0", 90)
    again = run_record.Restart(role="worker", index=0, cause="killed", time=scene.BEGAN + 90)
    found = _parts(run, 92, ended=None, restarts=[*run_record.read(run).restarts, again])
    assert found["recovery"] == pytest.approx(ALL["recovery"] + 2)


def test_the_time_between_two_launches_is_not_counted(tmp_path):
    run = scene.make(tmp_path)
    day = 86400.0
    one = run_record.Launch(started=scene.BEGAN - day, topology={"chief": 1, "ps": 1})
    seconds = {"start": 10.0, "step": 40.0}
    began = one.started + 5
    lost = accounts.Account(
        task="chief-0", began=began, until=began + 50, seconds=seconds, examples=12800, timed=12800
    )
    accounts.write(run, lost)
    # It ended with the last sign of life of its process: that is not recorded.
    found = _parts(run, earlier=[one])
    assert sum(found.values()) == pytest.approx(200 + 55)
    assert found["start-up"] == pytest.approx(ALL["start-up"] + 15)
    assert found["lost work"] == pytest.approx(40)


def test_a_worker_counts_from_when_it_joined_to_when_it_left(tmp_path):
    run, began = scene.make(tmp_path), scene.BEGAN
    joined = accounts.Account(
        task="worker-1", began=began + 62, until=began + 80, seconds={"start": 3, "step": 15}
    )
    accounts.write(run, joined)
    changes = [
        run_record.WorkerChange(workers=2, time=began + 60),
        run_record.WorkerChange(workers=1, time=began + 79),
    ]
    before = ALL["start-up"]
    found = _parts(run, 120, scalings=changes)
    assert sum(found.values()) == pytest.approx(200 + 20)
    assert found["start-up"] == pytest.approx(before + 5)
    found = _parts(run, 120, scalings=changes[:1], topology={"chief": 1, "worker": 2, "ps": 1})
    assert sum(found.values()) == pytest.approx(200 + 40)


def _worker_1(began, seconds):
    return accounts.Account(
        task="worker-1",
        began=scene.BEGAN + began,
        until=scene.BEGAN + began + sum(seconds.values()),
        seconds=seconds,
        ended=True,
    )


DOWN_AND_UP = [
    run_record.WorkerChange(workers=2, time=scene.BEGAN + 10),
    run_record.WorkerChange(workers=1, time=scene.BEGAN + 30),
    run_record.WorkerChange(workers=2, time=scene.BEGAN + 80),
]


def _scaled(tmp_path, name="r"):
    """A run with a worker that joins at 10 s, leaves at 32 s, and joins again at 80 s."""
    run = scene.make(tmp_path, name)
    accounts.write(run, _worker_1(11, {"start": 4, "step": 17}))
    accounts.write(run, _worker_1(82, {"start": 3, "step": 12}))
    return run


TWO_WORKERS = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}


def test_the_time_in_which_a_worker_was_not_part_of_the_job_is_not_counted(tmp_path):
    found = _parts(_scaled(tmp_path), 120, scalings=DOWN_AND_UP, topology=TWO_WORKERS)
    assert sum(found.values()) == pytest.approx(200 + 22 + 20)
    assert found["recovery"] == pytest.approx(ALL["recovery"])
    assert found["start-up"] == pytest.approx(ALL["start-up"] + 1 + 4 + 2 + 3)


def test_an_earlier_launch_keeps_when_its_workers_changed(tmp_path):
    run = _scaled(tmp_path)
    record = run_record.read(run)
    record.scalings, record.topology = DOWN_AND_UP, TWO_WORKERS
    run_record.write(run, record)
    again = run_record.begin(run.read_config(), run)
    again.started = again.ended = scene.BEGAN + 500
    again.launcher = None
    run_record.write(run, again)
    assert sum(_parts(run, 600).values()) == pytest.approx(200 + 22 + 20)


def test_a_worker_that_is_asked_for_before_it_has_left_counts_once(tmp_path):
    changes = [*DOWN_AND_UP[:2], DOWN_AND_UP[2].model_copy(update={"time": scene.BEGAN + 31})]
    found = _parts(_scaled(tmp_path), 120, scalings=changes, topology=TWO_WORKERS)
    assert sum(found.values()) == pytest.approx(200 + 90)


def test_preparing_records_is_part_of_the_start(tmp_path):
    found = _parts(scene.make(tmp_path), seconds={"total": 130.0})
    assert found["start-up"] == pytest.approx(ALL["start-up"] + 60)


def test_a_run_that_never_trained_has_no_goodput(tmp_path):
    run = scene.make(tmp_path)
    shutil.rmtree(pathlib.Path(run.path, accounts.FOLDER))
    assert _parts(run) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"task": "chief-0"}'])
def test_an_account_that_cannot_be_read_is_left_out(tmp_path, content):
    run = scene.make(tmp_path)
    (pathlib.Path(run.path) / accounts.FOLDER / "chief-0-9.json").write_text(content)
    assert _parts(run) == pytest.approx(ALL)


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
    part = {**row, "slice": "day=1"}
    run.write("evaluation.json", [{"step": 200, "split": "eval", "slices": [row, part]}])
    assert facts.gather(run).slices == {"eval": [row, part]}
    (pathlib.Path(run.path) / "evaluation.json").unlink()
    (extras / "metrics.json").write_text("{")
    assert facts.gather(run).slices == {}


def test_a_run_that_has_never_begun(tmp_path):
    run = scene.make(tmp_path)
    (pathlib.Path(run.path) / "run.json").unlink()
    (pathlib.Path(run.path) / "checkpoint").unlink()
    with pytest.raises(errors.UsageError, match=r"run 'r': has no run.json, so it has never begun"):
        facts.gather(run)


@pytest.mark.parametrize("left", ["RESULT.json", "checkpoint"])
def test_a_run_whose_record_is_gone(tmp_path, left):
    run = scene.make(tmp_path)
    (pathlib.Path(run.path) / "run.json").unlink()
    (pathlib.Path(run.path) / "checkpoint").unlink()
    (pathlib.Path(run.path) / left).write_text('model_checkpoint_path: "model.ckpt-200"\n')
    with pytest.raises(errors.DataError, match=r"run 'r': its run.json is missing, .* Restore it"):
        facts.gather(run)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"run": 3}'])
def test_a_record_that_cannot_be_used_is_not_taken_for_none(tmp_path, content):
    run = scene.make(tmp_path)
    pathlib.Path(run.record_path).write_text(content)
    with pytest.raises(errors.DataError, match=r"run.json': is damaged, or of another version"):
        facts.gather(run)
