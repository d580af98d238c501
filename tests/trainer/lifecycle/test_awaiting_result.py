"""What a chief does that must not end before its run is evaluated."""

from __future__ import annotations

import json
import socket
import time

import pytest

from pipeline import errors
from pipeline.runs import evaluator_patience, fatal, run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.supervision.ports import Reservation
from trainer.lifecycle import awaiting_result
from trainer.monitoring.status_reporter import Reporter


class Time:
    """Time that passes while the chief waits; at second `n` it does what `then` has for `n`."""

    def __init__(self, then=None, stop_at=None):
        self.now, self._then, self._stop_at = 0.0, then or {}, stop_at

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += 1.0
        self._then.get(self.now, lambda: None)()
        return self.now == self._stop_at


@pytest.fixture
def run(tmp_path):
    run = RunFolder(str(tmp_path))
    run.write(run_folder.TRAINING_DONE, {"final_step": 100, "reason": "steps"})
    return run


def says(run, state, age=0.0):
    """Lets the evaluator have said `state`, on a host of its own."""
    status = run_folder.Status(
        task="evaluator-0", pid=1, host="elsewhere", state=state, time=time.time() - age
    )
    run_folder.write_status(run, status)


def result(run, step=100):
    run.write(run_folder.RESULT, {"final_step": step})


def awaited(run, clock, patience=300.0):
    reporter = Reporter(run, "chief-0", 100)
    return awaiting_result.is_written(
        run, "s", reporter, patience=patience, clock=clock, wait=clock.wait
    )


def test_it_stays_until_the_evaluator_has_written_the_result_and_ended(run):
    says(run, "evaluating")
    clock = Time({900.0: lambda: result(run), 910.0: lambda: says(run, "done")})
    assert awaited(run, clock)
    assert clock.now == 910.0
    assert run_folder.read_status(run, "chief-0").work["what"] == "waiting for the evaluator"


def test_the_result_of_an_earlier_end_is_not_waited_for(run):
    result(run, step=50)
    assert not awaited(run, clock := Time())
    assert clock.now == 300.0


def test_a_result_of_this_end_is_enough_if_its_evaluator_says_nothing_more(run):
    result(run)
    assert awaited(run, clock := Time())
    assert clock.now == 60.0


@pytest.mark.parametrize("state", [None, "stopped", "failed", "evaluating"])
def test_an_evaluator_that_is_silent_or_lost_is_waited_for_as_long_as_said(run, state):
    if state is not None:
        says(run, state, age=3600.0)
    assert not awaited(run, clock := Time(), patience=20.0)
    assert clock.now == 20.0


def test_an_evaluator_that_comes_back_is_waited_for(run):
    back = {19.0: lambda: says(run, "starting"), 500.0: lambda: (result(run), says(run, "done"))}
    assert awaited(run, Time(back), patience=20.0)


def test_the_error_of_an_evaluator_that_failed_for_good_is_the_chiefs(run):
    def fail():
        with pytest.raises(errors.ModelError), fatal.fail_once(run, "evaluator-0", "s"):
            raise errors.ModelError("the exported model differs")

    says(run, "evaluating")
    with pytest.raises(errors.ModelError, match=r"^evaluator-0 .* for good: the exported model"):
        awaited(run, Time({5.0: fail}))


def test_it_ends_when_it_is_asked_to(run):
    says(run, "evaluating")
    with pytest.raises(errors.RetryableError, match="stopped while waiting for the evaluator"):
        awaited(run, Time(stop_at=3.0))


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, None),
        ({"PIPELINE_EVALUATOR_PATIENCE": "20"}, 20.0),
        ({"PIPELINE_EVALUATOR_PATIENCE": "soon"}, None),
        ({"CLOUD_ML_JOB_ID": "123"}, 300.0),
    ],
)
def test_only_where_a_job_ends_with_its_chief(variables, seconds):
    assert evaluator_patience.seconds(variables) == seconds


def test_a_process_of_this_host_that_is_gone_is_silent(run):
    status = run_folder.Status("evaluator-0", 2**22 + 1, socket.gethostname(), "evaluating", 1e12)
    run_folder.write_status(run, status)
    assert not awaited(run, Time(), patience=5.0)


@pytest.mark.slow
def test_without_an_evaluator_the_chief_evaluates_and_exports(commands, task_flags, small_records):
    run = RunFolder(str(small_records.storage / "runs" / "outlasts"))
    with Reservation(2) as reserved:
        spec = dict(zip(("chief", "ps"), ([at] for at in reserved.addresses), strict=True))
        flags = task_flags("outlasts", "cluster.strategy=parameter_server", "train.steps=40")
        spec_flag, task = f"--cluster_spec={json.dumps(spec)}", "trainer.task"
        variables = {evaluator_patience.VARIABLE: "1"}
        started = [
            commands.start(task, *flags, spec_flag, f"--job_name={role}", variables=variables)
            for role in ("ps", "chief")
        ]
        output = [commands.end(name) for name in started]
    found = run.read(run_folder.RESULT)
    assert found is not None, output
    assert {"eval", "test"} <= found["metrics"].keys()
    assert run.read("run.json")["status"] == "done"
    assert "the evaluator has not reported for 1 s" in output[1]
