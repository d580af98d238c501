"""Which checkpoints were not evaluated, by the list of those that were saved."""

from __future__ import annotations

import re

import pytest

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.evaluation import skipped


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


def _save(run, *steps):
    saved = skipped.Saved(run)
    for step in steps:
        saved(step, 0.1)


def test_without_a_list_nothing_was_passed_over(run):
    assert skipped.list_steps(run, [100]) == []


def test_after_a_restart_the_list_continues_and_names_each_once(run):
    _save(run, 0, 100, 200)
    _save(run, 200, 300)  # as a process does that starts again at step 200
    assert run.read(skipped.SAVED) == {"steps": [100, 200, 300]}


@pytest.mark.parametrize(
    ("judged", "passed_over"),
    [
        ([], []),
        ([100], []),
        ([300], [100, 200]),
        ([100, 300], [200]),
        ([200, 400], [100, 300]),
        ([100, 200, 300, 400], []),
    ],
)
def test_those_before_the_last_that_was_evaluated(run, judged, passed_over):
    _save(run, 100, 200, 300, 400)
    assert skipped.list_steps(run, judged) == passed_over


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([7], "1 of 4 checkpoints were not evaluated .*: steps 7$"),
        (range(1, 6), "5 of 8 checkpoints were not evaluated .*: steps 1, 2, 3, 4, 5$"),
        (range(1, 2001), "2,000 of 2,003 checkpoints were not .*: steps 1, 2, 3, 4, 5, …$"),
    ],
)
def test_one_line_names_the_first(steps, line):
    told = skipped.describe(list(steps), 3)
    assert "(superseded, or throttled by eval.throttle_seconds)" in told
    assert re.match(line, told)


def test_a_process_lists_what_it_saves(finished):
    assert finished.run.read(skipped.SAVED) == {"steps": [100, 200, 300]}
    assert finished.result["skipped"] == []


def test_a_single_process_passes_over_what_comes_too_soon(commands, task_flags, small_records):
    flags = task_flags("throttled", "train.steps=40", "train.save_steps=10", "eval.metric=hit_rate")
    own = ("model.name=tests.trainer.user_code:model_fn", "eval.throttle_seconds=1000")
    output = commands.run("trainer.task", *flags, *(f"--set={one}" for one in own))
    run = RunFolder(str(small_records.storage / "runs" / "throttled"))
    assert run.read("evaluations.json")["judged"] == [10, 40]
    assert run.read(run_folder.RESULT)["skipped"] == [20, 30]
    assert "2 of 4 checkpoints were not evaluated" in output


def test_many_checkpoints_take_no_time(run):
    """Each of them was compared with all others: 20,000 took seconds, after each evaluation."""
    run.write(skipped.SAVED, {"steps": list(range(1, 200_001))})
    judged = list(range(2, 200_001, 2))
    assert skipped.list_steps(run, judged) == list(range(1, 200_000, 2))
