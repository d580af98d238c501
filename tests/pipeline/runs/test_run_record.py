import os

import pytest

from pipeline import storage, versions
from pipeline.config import config_file
from pipeline.runs import accounts, run_folder, run_record
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.runs.run_record import Restart

# What other programs may rely on; see the table in the README.
FIELDS = {
    "status",
    "reason",
    "exit_code",
    "config",
    "strategy",
    "topology",
    "cluster",
    "launcher",
    "job",
    "launches",
    "final_step",
    "metrics",
    "best",
    "exports",
    "sha256",
    "restarts",
    "scalings",
    "input",
    "input_sha256",
    "readers",
    "left_out",
    "seconds",
    "examples_per_second",
    "versions",
    "manifest",
    "new_data",
    "step_seconds",
    "staleness",
    "servers",
    "skipped",
    "started",
    "command",
    "baselines",
    "evaluated",
    "intervals",
    "earlier",
    "ended",
}
RESULT = {
    "final_step": 1500,
    "metrics": {"test": {"accuracy": 0.99}},
    "baselines": {"test": {"accuracy": 0.25}},
    "evaluated": {"test": 99},
    "intervals": {"test": {"accuracy": [0.98, 0.995], "loss": "why", "rmse": [0.1, 0.2, "few"]}},
    "best": {"metric": "accuracy", "value": 0.99, "step": 1200},
    "exports": {"final": "export/final/1500", "best": None},
}


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


@pytest.fixture
def job():
    return config_file.load("mnist")


@pytest.fixture
def published(tmp_path):
    (tmp_path / "export/final/1500").mkdir(parents=True)
    (tmp_path / "export/final/1500/saved_model.pb").touch()
    return tmp_path / "export/final/1500"


def test_fields_are_a_contract(run, job):
    run_record.write(run, run_record.begin(job, run))
    assert set(run.read("run.json")) == FIELDS


def test_a_run_begins_as_running_under_this_process(run, job):
    record = run_record.begin(job, run)
    assert (record.status, record.launches, record.restarts) == ("running", 1, [])
    assert record.launcher.pid == os.getpid()
    assert (record.config, record.strategy) == ("mnist", "parameter_server")
    assert record.topology == {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    assert record.versions["tensorflow"].startswith("2.15")
    assert record.versions["code"] == versions.code_version()


def test_a_launch_remembers_when_those_before_it_ran(run, job):
    first = run_record.begin(job, run)
    run_record.close(first, run, None, stopped=False)
    second = run_record.begin(job, run)  # which is killed
    second.launcher.seen = second.started + 7
    run_record.write(run, second)
    third = run_record.begin(job, run)
    assert [(one.started, one.ended) for one in third.earlier] == [
        (first.started, first.ended),
        (second.started, second.started + 7),
    ]
    assert third.earlier[0].topology == first.topology
    assert third.ended is None and first.ended >= first.started


def test_it_is_read_as_it_was_written(run, job):
    record = run_record.begin(job, run)
    record.restarts = [Restart(role="ps", index=0, cause="killed", steps_lost=20)]
    run_record.write(run, record)
    assert run_record.read(run) == record


def test_a_second_launch_counts_on(run, job):
    first = run_record.begin(job, run)
    first.restarts = [Restart(role="worker", index=1, cause="killed")]
    run_record.write(run, first)
    second = run_record.begin(job, run)
    assert (second.launches, second.restarts) == (2, first.restarts)


@pytest.mark.parametrize("content", ["", "{", '{"status": "dancing"}'])
def test_a_record_that_cannot_be_used_counts_as_none(run, tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    assert run_record.read(run) is None


def test_the_result_is_taken_over(run, job):
    record = run_record.begin(job, run)
    run_record.add_result(record, run)
    assert record.final_step is None and record.metrics == {}
    run.write(run_folder.RESULT, RESULT)
    run_record.add_result(record, run)
    assert record.final_step == 1500 and record.metrics["test"]["accuracy"] == 0.99
    assert record.baselines == RESULT["baselines"]
    assert record.intervals == RESULT["intervals"]
    assert record.best == RESULT["best"] and record.exports == RESULT["exports"]


def test_what_is_asked_of_each_server_is_added_up_over_processes(run, job):
    record = run_record.begin(job, run)
    first = [{"rows": 3, "bytes": 40}, {"rows": 1, "bytes": 10}]
    second = [{"rows": 2, "bytes": 5, "pulled": 1}]
    said = {"pid": 1, "host": "h", "state": "done", "time": 0.0}
    statuses = {
        task: run_folder.Status(task=task, servers=servers, **said)
        for task, servers in (("chief-0", first), ("worker-0", second), ("ps-0", None))
    }
    run_record.add_statuses(record, statuses)
    run_record.write(run, record)
    assert run.read("run.json")["servers"] == {
        "ps-0": {"rows": 5, "bytes": 45},
        "ps-1": {"rows": 1, "bytes": 10},
    }


@pytest.mark.parametrize(
    ("reason", "finished"),
    [("early stopping: nothing improves", True), ("stop requested", False), ("deadline: 5", True)],
)  # of earlier versions, whose files have no "final"
def test_a_run_that_ended_early_is_finished_only_if_it_would_end_again_at_once(
    run, job, published, reason, finished
):
    storage.write_text(run.config_path, config_file.dump(job))
    record = run_record.begin(job, run).model_copy(update={"status": "done", "reason": reason})
    run_record.write(run, record)
    run.write(run_folder.RESULT, {**RESULT, "final_step": 100})
    assert (run_record.find_finished(job, run) is not None) is finished
    changed = config_file.load("mnist", ["train.batch_size=64"])
    assert run_record.find_finished(changed, run) is None


def test_a_run_that_ended_for_good_is_finished_whatever_its_reason_is_called(run, job, published):
    storage.write_text(run.config_path, config_file.dump(job))
    record = run_record.begin(job, run).model_copy(update={"status": "done", "reason": "enough"})
    run_record.write(run, record)
    run.write(run_folder.RESULT, {**RESULT, "final_step": 100})
    done = {"final_step": 100, "reason": "enough"}
    run.write(run_folder.TRAINING_DONE, done)
    assert run_record.find_finished(job, run) is None
    run.write(run_folder.TRAINING_DONE, {**done, "final": True})
    assert run_record.find_finished(job, run) is not None


@pytest.mark.parametrize(
    ("status", "step", "finished"),
    [
        ("done", 1500, True),
        ("done", 1502, True),  # asynchronous workers overshoot
        ("done", 1499, False),
        ("stopped", 1500, False),
        ("failed", 1500, False),
    ],
)
def test_when_a_run_has_nothing_left_to_do(run, job, published, status, step, finished):
    record = run_record.begin(job, run).model_copy(update={"status": status})
    run_record.write(run, record)
    assert run_record.find_finished(job, run) is None  # no result yet
    run.write(run_folder.RESULT, {**RESULT, "final_step": step})
    assert (run_record.find_finished(job, run) is not None) is finished


def test_a_paused_run_is_finished_until_it_is_to_train_on(run, job, published):
    record = run_record.begin(job, run).model_copy(update={"status": "done"})
    run_record.write(run, record)
    run.write(run_folder.RESULT, {**RESULT, "final_step": 100})
    finished = [
        run_record.find_finished(config_file.load("mnist", settings), run) is not None
        for settings in (["train.pause_step=100"], ["train.pause_step=101"], [])
    ]
    assert finished == [True, False, False]


def test_a_model_that_was_removed_is_something_left_to_do(run, job, published):
    run_record.write(run, run_record.begin(job, run).model_copy(update={"status": "done"}))
    run.write(run_folder.RESULT, RESULT)
    assert run_record.find_finished(job, run) is not None
    (published / "saved_model.pb").unlink()
    assert run_record.find_finished(job, run) is None


@pytest.mark.parametrize(("content", "finished"), [(None, False), ("{", False), ("{}", True)])
def test_the_record_of_the_best_is_something_left_to_do(run, job, published, content, finished):
    """Without it, or with half of it, no command finds the best model."""
    run_record.write(run, run_record.begin(job, run).model_copy(update={"status": "done"}))
    exports = {"final": "export/final/1500", "best": "export/final/1500"}
    run.write(run_folder.RESULT, {**RESULT, "exports": exports})
    if content is not None:
        storage.write_text(f"{run.path}/{run_folder.BEST}", content)
    assert (run_record.find_finished(job, run) is not None) is finished


def test_a_launcher_gives_a_sign_of_life_now_and_then(run, job):
    now, passed = [1000.0], [50.0]
    beat = run_record.Heartbeat(
        run_record.begin(job, run), run, clock=lambda: now[0], timer=lambda: passed[0]
    )
    seen = []
    for now[0], passed[0] in ((1000.0, 50.0), (1009.0, 59.0), (1011.0, 61.0), (-2589.0, 71.0)):
        beat()
        seen.append(run_record.read(run).launcher.seen)
    # At last the clock was set back by an hour, which must not silence it.
    assert seen == [1000.0, 1000.0, 1011.0, -2589.0]


def test_a_sign_of_life_is_not_worth_failing_for(tmp_path, job):
    (tmp_path / "file").write_text("in the way")
    place = run_folder.RunFolder(str(tmp_path / "file" / "run"))
    run_record.Heartbeat(run_record.begin(job, place), place)()


@pytest.mark.parametrize(
    ("epochs", "made_of", "finished"),
    [(8, 8.0, True), (4, 8.0, True), (8.5, 8.0, False), (8, None, False)],
)
def test_epochs_are_done_when_all_their_steps_were_made(run, published, epochs, made_of, finished):
    """By how many steps depends on the batches they were made with."""
    job = config_file.load("mnist", ["train.steps=null", f"train.epochs={epochs}"])
    run_record.write(run, run_record.begin(job, run).model_copy(update={"status": "done"}))
    run.write(run_folder.RESULT, {**RESULT, "epochs": made_of})
    assert (run_record.find_finished(job, run) is not None) is finished


def _says(run, task, time, seen=None):
    run_folder.write_status(run, Status(task, 1, "h", "training", time, seen=seen))


def test_a_launch_that_was_killed_ended_with_the_last_sign_of_its_processes(run, job):
    """They give theirs every second while they train, their launcher every ten."""
    first = run_record.begin(job, run)
    first.started, first.launcher.seen = 1000.0, 1050.0
    run_record.write(run, first)
    assert run_record.find_last_sign(run, first) == 1050
    _says(run, "ps-0", 1041.0, seen=1049.0)
    _says(run, "chief-0", 1055.0, seen=1055.0)
    _says(run, "worker-0", 1051.0, seen=1058.5)
    assert run_record.find_last_sign(run, first) == 1058.5
    account = accounts.Account(task="chief-0", began=1002.0, until=1059.0, seconds={"step": 57.0})
    accounts.write(run, account)
    _says(run, "evaluator-0", 9000.0)  # started by hand, the next day
    assert run_record.find_last_sign(run, first) == 1059
    second = run_record.begin(job, run)
    assert [(one.started, one.ended) for one in second.earlier] == [(1000, 1059)]
    first.ended = 1060.0
    assert run_record.find_last_sign(run, first) is None


def test_a_run_without_a_launcher_ended_with_the_last_sign_of_its_processes(run, job):
    record = run_record.begin(job, run, by_hand=True)
    record.started = 1000.0
    assert run_record.find_last_sign(run, record) is None
    _says(run, "chief-0", 1900.0)
    _says(run, "worker-0", 20.0)  # of an earlier start
    assert run_record.find_last_sign(run, record) == 1900


def test_a_launch_that_was_killed_began_with_its_command(run, job):
    """Not when that took hold of the run, after it had read the config and its records."""
    first = run_record.begin(job, run)
    first.started, first.launcher.seen = 1000.0, 1050.0
    run_record.note_command(first, began=998.0)
    run_record.write(run, first)
    assert [one.started for one in run_record.begin(job, run).earlier] == [998]
    by_hand = run_record.begin(job, run, by_hand=True)
    run_record.note_command(by_hand, began=5.0)
    assert by_hand.launcher is None
