"""What roles that are started by hand find out of each other before they begin."""

from __future__ import annotations

import threading

import pytest

from pipeline import errors, storage
from pipeline.cluster import gpus, topology
from pipeline.config import config_file
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import wait_until
from trainer.lifecycle import preflight

WORKER, EVALUATOR = topology.Task("worker", 0), topology.Task("evaluator", 0)


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


@pytest.fixture
def job():
    return config_file.load("mnist")


class Clock:
    """Time that passes in `sleep`; `then` is done at the first time."""

    def __init__(self, then=lambda: None):
        self.now, self._then = 0.0, then

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self._then()
        self.now += 1.0


def test_a_process_that_gets_an_answer_continues(run, job, capsys):
    clock = Clock(preflight.PreflightServer(run, job).answer)
    preflight.check(run, job, WORKER, patience=300, clock=clock, sleep=clock.sleep)
    assert clock.now == 1.0
    assert capsys.readouterr().out == ""


def test_what_is_answered_is_not_read_again(run, job, tmp_path):
    chief = preflight.PreflightServer(run, job)
    clock = Clock(chief.answer)
    preflight.check(run, job, WORKER, patience=300, clock=clock, sleep=clock.sleep)
    assert [path.name for path in (tmp_path / "preflight").iterdir()] == ["worker-0.answer.json"]


def test_a_question_that_cannot_be_read_delays_no_other_role(run, job, tmp_path, capsys):
    unreadable = tmp_path / "preflight" / "evaluator-0.ask.json"
    unreadable.mkdir(parents=True)
    preflight.PreflightServer(run, job).start()
    wait_until(lambda: "answering the roles that start failed" in capsys.readouterr().err)
    preflight.check(run, job, WORKER, patience=60)
    unreadable.rmdir()
    preflight.check(run, job, EVALUATOR, patience=60)


def test_an_answer_that_cannot_be_read_just_now_is_looked_for_again(run, job, tmp_path):
    answer = tmp_path / "preflight" / "worker-0.answer.json"
    answer.mkdir(parents=True)

    def heal() -> None:
        if answer.is_dir():
            answer.rmdir()
        preflight.PreflightServer(run, job).answer()

    clock = Clock(heal)
    preflight.check(run, job, WORKER, patience=300, clock=clock, sleep=clock.sleep)
    assert clock.now == 1.0


def test_a_role_looks_less_often_the_longer_it_waits(run, job):
    pauses = []
    clock = Clock()
    with pytest.raises(errors.RetryableError):
        preflight.check(
            run,
            job,
            WORKER,
            patience=30,
            clock=clock,
            sleep=lambda pause: (pauses.append(pause), clock.sleep(pause)),
        )
    assert (pauses[0], pauses[-1]) == (0.1, 1.0)


def test_an_answer_to_an_earlier_start_does_not_count(run, job):
    chief = preflight.PreflightServer(run, job)
    clock = Clock(chief.answer)
    preflight.check(run, job, WORKER, patience=300, clock=clock, sleep=clock.sleep)
    alone = Clock()
    with pytest.raises(errors.RetryableError, match=r"^worker-0: the chief has not answered"):
        preflight.check(run, job, WORKER, patience=5, clock=alone, sleep=alone.sleep)


@pytest.mark.parametrize(("what", "other"), [("config", "train.steps=9"), ("code", None)])
def test_what_differs_is_named(run, job, monkeypatch, what, other):
    chief = preflight.PreflightServer(run, config_file.load("mnist", [other] if other else []))
    if other is None:
        monkeypatch.setattr(preflight.versions, "code_version", lambda: "another")
    clock = Clock(chief.answer)
    with pytest.raises(errors.UsageError, match=rf"^worker-0: its {what} is .*, the chief's is "):
        preflight.check(run, job, WORKER, patience=300, clock=clock, sleep=clock.sleep)


def with_gpus(number):
    job = config_file.load("mnist", ["cluster.strategy=multi_worker_mirrored"])
    return gpus.with_replicas(job, number)


def test_each_process_that_trains_needs_as_many_gpus_as_the_chief(run):
    clock = Clock(preflight.PreflightServer(run, with_gpus(2)).answer)
    with pytest.raises(
        errors.UsageError, match=r"^worker-0: it has 1 of the model's replicas, the chief 2: each "
    ):
        preflight.check(run, with_gpus(1), WORKER, patience=9, clock=clock, sleep=clock.sleep)
    preflight.check(run, with_gpus(2), WORKER, patience=9, clock=clock, sleep=clock.sleep)


def test_an_evaluator_may_have_no_gpu(run):
    clock = Clock(preflight.PreflightServer(run, with_gpus(2)).answer)
    preflight.check(run, with_gpus(0), EVALUATOR, patience=9, clock=clock, sleep=clock.sleep)


def test_the_keys_that_differ_are_named(run, job):
    run.write("preflight/chief.json", {})  # makes the folder
    storage.write_text(run.config_path, config_file.dump(job))
    clock = Clock(preflight.PreflightServer(run, job).answer)
    other = config_file.load("mnist", ["train.batch_size=9", "data.inputs.train.images=/x"])
    with pytest.raises(errors.UsageError, match=r"'s is \w+ \(train\.batch_size: 128 -> 9\)\. St"):
        preflight.check(run, other, WORKER, patience=300, clock=clock, sleep=clock.sleep)


def test_the_raw_data_may_lie_elsewhere(run, job):
    elsewhere = config_file.load("mnist", ["data.inputs.train.images=/elsewhere/images.gz"])
    assert preflight.identify(elsewhere) == preflight.identify(job)
    clock = Clock(preflight.PreflightServer(run, elsewhere).answer)
    preflight.check(run, job, WORKER, patience=300, clock=clock, sleep=clock.sleep)


def test_waiting_is_logged_once(run, job, capsys):
    clock = Clock()
    with pytest.raises(errors.RetryableError, match="for 30 s"):
        preflight.check(run, job, WORKER, patience=30, clock=clock, sleep=clock.sleep)
    assert capsys.readouterr().out == "worker-0: waiting up to 30 s for the chief\n"


def test_an_evaluator_may_come_after_the_end(run, job):
    run.write("preflight/chief.json", preflight.identify(job))
    run.write(run_folder.TRAINING_DONE, {"final_step": 5, "reason": "steps"})
    clock = Clock()
    preflight.check(run, job, EVALUATOR, patience=300, clock=clock, sleep=clock.sleep)
    assert clock.now == 20.0
    other = config_file.load("mnist", ["train.steps=9"])
    with pytest.raises(errors.UsageError, match="its config is"):
        preflight.check(run, other, EVALUATOR, patience=300, clock=clock, sleep=clock.sleep)


@pytest.mark.parametrize("task", [WORKER, EVALUATOR])
def test_only_an_evaluator_may_start_without_an_answer_and_only_after_training(run, job, task):
    run.write("preflight/chief.json", preflight.identify(job))
    if task is WORKER:
        run.write(run_folder.TRAINING_DONE, {"final_step": 5, "reason": "steps"})
    clock = Clock()
    with pytest.raises(errors.RetryableError, match="the chief has not answered"):
        preflight.check(run, job, task, patience=60, clock=clock, sleep=clock.sleep)


def test_the_chief_answers_any_process_at_any_time(run, job):
    preflight.PreflightServer(run, job).start()
    assert run.read("preflight/chief.json") == {**preflight.identify(job), "replicas": 1}
    tasks = [WORKER, EVALUATOR, topology.Task("ps", 0)]
    checks = [threading.Thread(target=preflight.check, args=(run, job, task)) for task in tasks]
    for check in checks:
        check.start()
    for check in checks:
        check.join(timeout=30)
        assert not check.is_alive()
