"""Asking a run for another number of workers."""

from __future__ import annotations

import pathlib

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.runs import run_folder, run_lock, run_record, scale_request
from pipeline.runs.run_folder import RunFolder

NOW = 1000.0


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path / "r"))


def launched(run, *settings, strategy="parameter_server"):
    """A run that a launcher has begun; returns its record."""
    job = config_file.load("mnist", [f"cluster.strategy={strategy}", *settings])
    record = run_record.begin(job, run)
    record.launcher.seen = NOW
    run_record.write(run, record)
    pathlib.Path(run.config_path).write_text(config_file.dump(job))
    return record


def asked(run, workers):
    with run_lock.hold(run):
        return scale_request.ask(run, workers, NOW)


def refused(run, workers, match):
    with pytest.raises(errors.UsageError, match=match):
        asked(run, workers)
    assert run.read(run_folder.SCALE) is None


def test_workers_are_asked_for_up_to_the_places_there_are(run):
    launched(run, "cluster.workers=2", "cluster.max_workers=5")
    assert asked(run, 5) == "2 to 5 workers; others join, all others train on"
    assert run.read(run_folder.SCALE) == {"workers": 5}
    assert asked(run, 1).startswith("2 to 1 workers; those that leave hand back their blocks")


def test_more_than_there_are_places_for_are_refused(run):
    launched(run, "cluster.workers=2", "cluster.max_workers=5")
    refused(run, 6, r"^--workers=6: the parameter servers keep places for 5\. make stop, then ")


def test_without_places_to_spare_workers_can_only_leave(run):
    launched(run, "cluster.workers=2")
    refused(
        run, 3, r'places for 2\. make stop.*WORKERS=3 and SET="cluster\.max_workers=3" continues'
    )
    assert asked(run, 1).startswith("2 to 1 workers")


@pytest.mark.parametrize("workers", [0, -3])
def test_none_is_no_number_of_workers(run, workers):
    launched(run)
    refused(run, workers, rf"^--workers={workers}: must be at least 1; make stop ends a run")


def test_as_many_as_there_are_is_reported(run):
    record = launched(run, "cluster.max_workers=5")
    record.topology["worker"] = 4  # it was scaled before
    run_record.write(run, record)
    refused(run, 4, r"^run 'r': has as many workers already \(4\)")


@pytest.mark.parametrize("strategy", ["none", "mirrored"])
def test_a_mode_without_workers_is_refused(run, strategy):
    launched(run, strategy=strategy)
    refused(run, 2, rf"^--workers=2: strategy '{strategy}' \(.*\) has no workers; make stop, then")


def test_where_all_step_together_all_start_again(run):
    launched(run, strategy="multi_worker_mirrored")
    assert asked(run, 3) == "1 to 3 workers; all that train save and start again"


def test_a_batch_that_so_many_cannot_share_is_refused(run):
    launched(run, "train.batch_size_is=global", strategy="multi_worker_mirrored")
    refused(run, 2, r"^train\.batch_size: 128 examples cannot be shared evenly by 3 replicas; use ")


def test_a_run_that_has_ended_is_not_scaled(run):
    record = launched(run)
    record.status, record.reason = "done", "all steps made"
    run_record.write(run, record)
    refused(
        run, 2, r"'r': is not training \(done: all steps made\); make train with the same RUN= "
    )


def test_one_that_only_evaluates_is_not_scaled(run):
    launched(run)
    run.write(run_folder.TRAINING_DONE, {"final_step": 5, "reason": "steps"})
    refused(run, 2, r"^run 'r': has ended training; nothing to scale")


def test_workers_by_hand_are_started_by_hand(run):
    record = launched(run)
    record.launcher = None
    run_record.write(run, record)
    run_folder.write_status(run, run_folder.Status("chief-0", 1, "elsewhere", "training", NOW))
    refused(
        run, 2, r"^run 'r': its roles were started by hand, so start or stop \(SIGTERM\) workers"
    )


def test_a_script_keeps_its_processes(run):
    record = run_record.begin_as(run, config="train", strategy="script", topology={"chief": 1})
    run_record.write(run, record)
    run.write(run_folder.SCRIPT, {"command": ["train"]})
    refused(run, 2, r"^run 'r': runs a script, whose processes are those it was started with")
