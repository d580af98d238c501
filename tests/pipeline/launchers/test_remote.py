"""What is the same at all places that take whole jobs, at one that keeps them in a dictionary."""

from __future__ import annotations

import dataclasses

import pytest

from pipeline import errors, places
from pipeline.jobs import job as jobs
from pipeline.launchers import base, remote_jobs
from pipeline.launchers.remote import Phase, RemoteLauncher, State, find_final_error
from pipeline.runs import fatal, run_folder, run_record

WORDS = {"queued": Phase.WAITING, "running": Phase.RUNNING}
# Name of a job to the states that it goes through; the last one stays.
STATES: dict[str, list[str]] = {}


@dataclasses.dataclass(frozen=True)
class CellarLauncher(RemoteLauncher):
    service = "the cellar"

    def prepare(self, job):
        return job

    def submit(self, job, submission):
        return "cellar/1"

    def find(self, job):
        return None

    def look(self, name):
        states = STATES[name]
        word = states.pop(0) if len(states) > 1 else states[0]
        if word == "?":
            raise errors.RetryableError("the cellar does not answer")
        return State(WORDS.get(word, Phase.ENDED), word)

    def cancel(self, name):
        STATES[name] = ["cancelled"]

    def failure(self, job, name, state):
        return find_final_error(job) or (
            None if state.word == "finished" else errors.RetryableError(f"it is {state.word}")
        )

    def show(self, job):
        return base.Shown("", "")


@pytest.fixture(autouse=True)
def cellar(monkeypatch):
    made = places.Place("the cellar", launcher=f"{__name__}:CellarLauncher", jobs="cellar/")
    monkeypatch.setitem(places.PLACES, "cellar", made)
    yield STATES
    STATES.clear()


@pytest.fixture
def wanted(tmp_path):
    return jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))


def run(wanted):
    made = base.choose("cellar")
    return dataclasses.replace(made, sleep=lambda seconds: None).run(wanted, started=0.0)


def submitted(wanted, *states: str, job: str = "cellar/1"):
    """Records that a run has a job, which goes through some states."""
    STATES[job] = [*states]
    record = run_record.begin(wanted.config, wanted.run)
    record.job = job
    run_record.write(wanted.run, record)
    return wanted.run


def test_a_job_is_followed_to_its_end_and_recorded(cellar, wanted, capsys):
    cellar["cellar/1"] = ["queued", "?", "running", "finished"]
    record = run(wanted)
    assert (record.status, record.job) == ("done", "cellar/1")
    said = capsys.readouterr().out
    order = [said.index(f"the cellar: {word}") for word in ("queued", "running", "finished")]
    assert order == sorted(order)


def test_a_job_that_fails_is_recorded_with_the_error_of_its_process(cellar, wanted):
    class Failing(CellarLauncher):
        def look(self, name):
            content = {"submission": "s", "task": "chief-0", "exit_code": 70, "error": "nan"}
            wanted.run.write(fatal.MARKER, content)
            return State(Phase.ENDED, "failed")

    with pytest.raises(errors.ModelError, match=r"^chief-0: nan$"):
        Failing().run(wanted, started=0.0)
    record = run_record.read(wanted.run)
    assert (record.status, record.exit_code) == ("failed", 70)


def test_a_job_that_never_answers_counts_as_running(cellar, wanted):
    cellar["cellar/1"] = ["?"]
    with pytest.raises(errors.RetryableError, match="does not answer"):
        run(wanted)
    assert run_record.read(wanted.run).status == "running"


def test_stop_cancels_a_job_without_machines_and_asks_the_processes_of_others(wanted):
    assert remote_jobs.stop(submitted(wanted, "running")) is None
    said = remote_jobs.stop(submitted(wanted, "queued"))
    assert said == "its job 1 on the cellar had no machines yet, and is cancelled"
    assert remote_jobs.has_ended("cellar/1")
    with pytest.raises(errors.UsageError, match="to stop, its job 1 on the cellar is cancelled"):
        remote_jobs.stop(wanted.run)


def test_status_works_without_an_answer(wanted):
    assert remote_jobs.describe_job(submitted(wanted, "?")) == [
        "its job 1 on the cellar cannot be asked about: the cellar does not answer"
    ]
    assert not remote_jobs.has_ended("cellar/1")
    assert remote_jobs.logs_link("cellar/1") is None


def test_a_run_at_one_place_is_not_submitted_at_another(wanted, monkeypatch):
    run_ = submitted(wanted, "running", job="cellar/1")

    class Other(CellarLauncher):
        pass

    with pytest.raises(errors.UsageError, match=r"is running on the cellar. Follow it with CLUST"):
        Other().run(wanted, started=0.0)
    STATES["cellar/1"] = ["finished"]
    remote_jobs.refuse_while_going(run_)


def test_a_job_of_an_unknown_place_is_not_taken_for_one_of_ours(wanted):
    run_ = submitted(wanted, "running", job="moon/1")
    with pytest.raises(errors.UsageError, match=r"^job 'moon/1': no place has jobs with such a"):
        run(wanted)
    assert "no place has jobs" in remote_jobs.describe_job(run_)[0]
    assert remote_jobs.logs_link("moon/1") is None


def test_a_job_may_record_its_end_itself(cellar, wanted):
    cellar["cellar/1"] = ["failed"]

    class Recording(CellarLauncher):
        def look(self, name):
            record = run_record.read(wanted.run)
            record.status, record.exit_code, record.reason = "failed", 65, "bad rows"
            run_record.write(wanted.run, record)
            return super().look(name)

    with pytest.raises(errors.DataError, match=r"^bad rows$"):
        Recording().run(wanted, started=0.0)
    assert wanted.run.read(run_folder.RESULT) is None


def test_a_place_whose_jobs_keep_their_size_reports_it(wanted):
    with pytest.raises(
        errors.UsageError,
        match=r"'r': is a job on the cellar, whose size is fixed; make stop, then make train "
        r"CLUSTER=cellar with the same RUN= and WORKERS=2 continues$",
    ):
        remote_jobs.scale(submitted(wanted, "running"), 2, 1000.0)
    assert wanted.run.read(run_folder.SCALE) is None


def test_processes_that_are_no_job_are_scaled_elsewhere(wanted):
    record = run_record.begin(wanted.config, wanted.run)
    run_record.write(wanted.run, record)
    assert remote_jobs.scale(wanted.run, 2, 1000.0) is None
