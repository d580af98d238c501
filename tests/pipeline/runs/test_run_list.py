"""The table of all runs."""

from __future__ import annotations

import os
import socket
import time

import pytest

from pipeline import storage
from pipeline.config import config_file
from pipeline.runs import accounts, run_folder, run_list, run_record, tags
from pipeline.runs.run_folder import RunFolder, Status

NOW = 2_000_000.0
CONFIG = config_file.load("mnist")


@pytest.fixture
def add(tmp_path):
    """Makes a run whose newest launch began so many seconds ago."""

    def _add(name, ago, **values):
        run = RunFolder(str(tmp_path / "runs" / name))
        storage.write_text(run.config_path, "name: 'mnist'\nmodel: 1\n", parents=True)
        os.utime(run.config_path, (NOW - ago, NOW - ago))
        if values:
            made = run_record.begin(CONFIG, run)
            made.started = NOW - ago
            if "seconds" in values:
                made.ended = made.started + values["seconds"]["total"]
            run_record.write(run, made.model_copy(update=values))
        return run

    return _add


def test_runs_are_listed_newest_first(add, tmp_path):
    best = {"metric": "accuracy", "value": 0.9912, "step": 1200}
    add("old", 9000, status="done", final_step=1500, best=best, seconds={"total": 125.0})
    add("failed", 60, status="failed", reason="disk full", exit_code=75)
    (tmp_path / "runs" / "no-run").mkdir()
    rows = run_list.read(str(tmp_path), NOW)
    assert [(row.name, row.status) for row in rows] == [("failed", "failed"), ("old", "done")]
    when = [time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started)) for row in rows]
    assert run_list.lines(rows) == [
        "run     config  status   step  best             started           took",
        f"failed  mnist   failed                          {when[0]}",
        f"old     mnist   done    1,500  accuracy 0.9912  {when[1]}  2 min 5 s",
    ]


def test_a_run_that_was_launched_again_shows_its_first_start_and_all_of_its_time(add, tmp_path):
    first = run_record.Launch(started=NOW - 9000, ended=NOW - 8900, topology={"chief": 1})
    add("again", 60, status="done", seconds={"total": 9.0}, earlier=[first])
    add("between", 500, status="done", seconds={"total": 10.0})
    add("at-work", 30, launcher=None, earlier=[first])
    _at_work(RunFolder(str(tmp_path / "runs" / "at-work")))
    rows = run_list.read(str(tmp_path), NOW)
    assert [(row.name, NOW - row.started, row.seconds) for row in rows] == [
        ("at-work", 9000, 130),
        ("again", 9000, 109),
        ("between", 500, 10),
    ]
    by_start = run_list.select(rows, sort="started")
    assert [row.name for row in by_start] == ["between", "at-work", "again"]


def test_the_time_of_a_launch_that_was_killed_is_known_from_its_processes(add, tmp_path):
    run = add("killed", 60, launcher=None)
    seconds = {"start": 7.0}
    one = accounts.Account(task="chief-0", began=NOW - 50, until=NOW - 43, seconds=seconds)
    accounts.write(run, one)
    [row] = run_list.read(str(tmp_path), NOW)
    assert (row.status, row.seconds) == ("died", 17.0)


def _at_work(run):
    status = {"pid": os.getpid(), "host": socket.gethostname(), "state": "training", "time": NOW}
    run_folder.write_status(run, Status(task="chief-0", step=1234, **status))


def test_a_running_run_shows_its_step_and_best_so_far(add, tmp_path):
    run = add("now", 65, launcher=None)
    status = {"pid": os.getpid(), "host": socket.gethostname(), "state": "training", "time": NOW}
    run_folder.write_status(run, Status(task="chief-0", step=1234, **status))
    run_folder.write_status(run, Status(task="worker-0", step=1230, **status))
    run.write(run_folder.BEST, {"metric": "auc", "value": 0.5, "step": 900})
    [row] = run_list.read(str(tmp_path), NOW)
    assert (row.status, row.step, row.seconds) == ("running", 1234, 65.0)
    assert row.best == {"metric": "auc", "value": 0.5, "step": 900}


def test_runs_that_were_asked_to_stop_are_found_as_stopped(add, tmp_path):
    add("whole", 60, status="done", reason=run_record.ALL_STEPS)
    add("asked", 50, status="done", reason=run_folder.STOP_REQUESTED, exit_code=0)
    add("signal", 40, status="stopped", reason="stopped by SIGTERM", exit_code=75)
    rows = run_list.read(str(tmp_path), NOW)
    found = [(row.name, row.status) for row in rows]
    assert found == [("signal", "stopped"), ("asked", "stopped"), ("whole", "done")]
    assert [row.name for row in run_list.select(rows, statuses=["done"])] == ["whole"]


def test_a_run_without_a_record_is_named_by_its_config(add, tmp_path):
    run = add("dead", 65)
    storage.write_text(f"{run.path}/checkpoint", 'model_checkpoint_path: "/x/model.ckpt-77"\n')
    [row] = run_list.read(str(tmp_path), NOW)
    assert (row.config, row.status, row.step, row.seconds) == ("mnist", "died", 77, None)


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"status": 5}', ""])
def test_a_damaged_record_does_not_hide_the_others(add, tmp_path, text):
    add("well", 60, status="done")
    run = add("damaged", 50)
    storage.write_text(run.record_path, text)
    run.write(run_folder.RESULT, {"final_step": 3})
    rows = run_list.read(str(tmp_path), NOW)
    assert [(row.name, row.status) for row in rows] == [("damaged", "damaged"), ("well", "done")]
    assert {row.status for row in rows} <= set(run_list.STATUSES)


def test_a_run_without_its_config_is_a_row_too(add, tmp_path):
    run = add("done", 60, status="done", final_step=300)
    os.remove(run.config_path)
    [row] = run_list.read(str(tmp_path), NOW)
    assert (row.name, row.config, row.status, row.step) == ("done", "mnist", "damaged", 300)
    os.remove(run.record_path)
    assert run_list.read(str(tmp_path), NOW) == []


def test_a_run_at_work_writes_its_damaged_record_again(add, tmp_path):
    run = add("now", 65)
    storage.write_text(run.record_path, "{")
    _at_work(run)
    assert run_list.read(str(tmp_path), NOW)[0].status == "running"


def test_a_copied_folder_is_no_newer_than_its_run(add, tmp_path):
    add("new", 60, status="done")
    copy = add("copy", 9000, status="done")
    os.utime(copy.config_path, (NOW, NOW))
    rows = run_list.read(str(tmp_path), NOW)
    assert [(row.name, NOW - row.launched) for row in rows] == [("new", 60), ("copy", 9000)]


def test_a_damaged_file_next_to_the_record_is_a_row_too(add, tmp_path):
    run = add("damaged", 50, status="failed")
    storage.write_text(f"{run.path}/{run_folder.BEST}", "{")
    [row] = run_list.read(str(tmp_path), NOW)
    assert row.status == "unreadable"


@pytest.mark.parametrize(
    "best", [{}, {"replacement": {"step": 1}}, {"metric": "auc", "value": None, "step": 1}]
)
@pytest.mark.parametrize("sort", run_list.SORTS)
def test_a_best_without_a_value_is_none_yet(add, tmp_path, best, sort):
    add("now", 65).write(run_folder.BEST, best)
    rows = run_list.select(run_list.read(str(tmp_path), NOW), sort=sort)
    assert rows[0].best is None
    assert "not started" in run_list.lines(rows)[1]


def test_only_runs_of_a_config(add, tmp_path):
    add("one", 60, status="done")
    add("two", 50, status="done", config="other")
    assert [row.name for row in run_list.read(str(tmp_path), NOW, "other")] == ["two"]
    assert run_list.read(str(tmp_path), NOW, "no-such") == []
    assert run_list.read(str(tmp_path / "empty"), NOW) == []


def _best(metric, value):
    return {"best": {"metric": metric, "value": value, "step": 1}}


def _lower(run):
    storage.write_text(run.config_path, "name: x\neval:\n  higher_is_better: false\n")
    os.utime(run.config_path, (NOW - 5, NOW - 5))


def test_runs_are_sorted_by_what_is_asked_for(add, tmp_path):
    add("b", 50, status="done", final_step=5, seconds={"total": 9.0}, **_best("auc", 0.7))
    add("a", 60, status="failed", final_step=50, seconds={"total": 99.0}, **_best("auc", 0.9))
    add("d", 70, status="done", final_step=500)
    add("c", 80, status="done", seconds={"total": 999.0}, **_best("auc", 0.8))
    rows = run_list.read(str(tmp_path), NOW)
    for sort, names in (
        ("newest", "badc"),
        ("started", "badc"),
        ("metric", "acbd"),
        ("name", "abcd"),
        ("status", "bcda"),
        ("step", "dabc"),
        ("took", "cabd"),
    ):
        assert "".join(row.name for row in run_list.select(rows, sort=sort)) == names, sort


def test_less_may_be_better_and_other_metrics_come_after(add, tmp_path):
    for name, value in (("x", 0.3), ("y", 0.1), ("z", 0.2)):
        _lower(add(name, 60, status="done", **_best("loss", value)))
    add("other", 50, status="done", **_best("auc", 0.99))
    rows = run_list.select(run_list.read(str(tmp_path), NOW), sort="metric")
    assert [row.name for row in rows] == ["y", "z", "x", "other"]


def test_runs_are_chosen_by_status_and_tags(add, tmp_path):
    tags.change(add("a", 50, status="done"), ["base", "good"])
    tags.change(add("b", 60, status="failed"), ["base"])
    add("c", 70, status="died")
    rows = run_list.read(str(tmp_path), NOW)

    def names(**chosen):
        return [row.name for row in run_list.select(rows, **chosen)]

    assert names(statuses=["done", "failed"]) == ["a", "b"]
    assert names(tagged=["base"]) == ["a", "b"] and names(tagged=["base", "good"]) == ["a"]
    assert names(statuses=["failed"], tagged=["good"]) == []
    lines = run_list.lines(rows)
    assert lines[0].split()[-1] == "tags" and lines[1].endswith("base good")


def test_a_launcher_that_was_killed_has_taken_until_its_processes_were_last_seen(add, tmp_path):
    launcher = run_record.LauncherProcess(host="elsewhere", pid=1, seen=NOW - 1010)
    run = add("killed", 1070, launcher=launcher)
    state = {"pid": 1, "host": "elsewhere", "state": "training"}
    run_folder.write_status(run, Status(task="chief-0", time=NOW - 1002, **state))
    [row] = run_list.read(str(tmp_path), NOW)
    assert (row.status, row.seconds) == ("died", 68)


def test_the_best_has_its_interval(add, tmp_path):
    best = {"metric": "accuracy", "value": 0.9912, "step": 1200, "interval": [0.985, 0.9951]}
    add("sure", 9000, status="done", best=best, seconds={"total": 125.0})
    add("few", 9001, status="done", best={**best, "interval": "too few records: 4"})
    carried = [0.985, 0.9951, "few groups carry this error: the interval may be too narrow"]
    add("carried", 9002, status="done", best={**best, "interval": carried})
    rows = run_list.read(str(tmp_path), NOW)
    assert [run_list.cells(row)[4] for row in rows] == [
        "accuracy 0.9912 [0.9850, 0.9951]",
        "accuracy 0.9912",
        "accuracy 0.9912 [0.9850, 0.9951], few groups carry this error",
    ]
