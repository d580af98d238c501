"""Commands that look at a run whose job on Vertex AI no command follows."""

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers import remote_jobs
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from tests.cloud.jobs import PLACE
from tests.support import commands

JOB = f"{PLACE}/customJobs/1"


@pytest.fixture
def jobs(cloud):
    yield cloud.api.jobs
    cloud.api.jobs.clear()


@pytest.fixture
def run(cloud, jobs, small_records) -> RunFolder:
    """A run that has been submitted."""
    made = RunFolder(f"{cloud.root}/out/runs/r")
    config = small_records.config()
    cloud.put("out/runs/r/config.yaml", config_file.dump(config).encode())
    record = run_record.begin(config, made)
    record.job = JOB
    run_record.write(made, record)
    jobs.answer("POST", f"/v1/{PLACE}/customJobs", {}, b'{"labels": {"run": "r"}}')
    return made


def command(cloud, name: str, *arguments: str):
    given = (f"pipeline.commands.{name}", f"--storage={cloud.root}/out", *arguments)
    return commands.run(*given, environment=cloud.environment)


def test_status_says_what_the_service_says(cloud, run, jobs):
    jobs.states = ["JOB_STATE_RUNNING"]
    said = command(cloud, "status").stdout
    assert "run r: running" in said
    assert "\nVertex AI: running\n" in said
    assert (
        "console.cloud.google.com/agent-platform/locations/europe-west4/training/1?project=" in said
    )
    assert "all logs https://console.cloud.google.com/logs/query;query=resource.type%3D" in said


def test_status_reports_the_end_of_a_job_that_was_not_followed(cloud, run, jobs):
    jobs.states, jobs.error = ["JOB_STATE_FAILED"], "no machines"
    said = command(cloud, "status").stdout
    assert "Vertex AI: failed: no machines\nThe command that submitted it, once more, takes" in said


def test_status_works_without_the_service(cloud, run):
    cloud.fault("customJobs", status=403, times=9)
    done = command(cloud, "status")
    assert done.returncode == 0
    assert "its job 1 on Vertex AI cannot be asked about: Vertex AI, projects/" in done.stdout


def test_stop_asks_the_processes_of_a_running_job(cloud, run, jobs):
    jobs.states = ["JOB_STATE_RUNNING"]
    done = command(cloud, "stop")
    assert "run r: asked to stop; it saves, evaluates and exports" in done.stdout, done.stderr
    assert run.read(run_folder.STOP) == {"reason": "stop requested"}


@pytest.mark.parametrize("state", ["JOB_STATE_QUEUED", "JOB_STATE_PENDING"])
def test_stop_cancels_a_job_that_has_no_machines_yet(cloud, run, jobs, state):
    jobs.states = [state]
    done = command(cloud, "stop")
    assert "run r: its job 1 on Vertex AI had no machines yet, and is cancelled" in done.stdout, (
        done.stderr
    )
    assert run.read(run_folder.STOP) is None
    assert remote_jobs.has_ended(JOB)


def test_stop_refuses_what_has_ended(cloud, run, jobs):
    jobs.states = ["JOB_STATE_SUCCEEDED"]
    with pytest.raises(errors.UsageError, match=r"^run 'r': nothing to stop, its .* is succeeded"):
        remote_jobs.stop(run)


def test_logs_come_from_the_run_folder_and_the_service_is_named(cloud, run, jobs):
    cloud.put("out/runs/r/logs/worker-0.log", b"from a worker\n")
    cloud.put("out/runs/r/logs/ps-0.log", b"from a ps\n")
    done = command(cloud, "logs", "--role=worker")
    assert done.stdout == "worker-0 | from a worker\n"
    assert done.stderr.startswith("all logs https://console.cloud.google.com/logs/query")
    assert "job_id%3D%221%22?project=my-project" in done.stderr


def test_logs_are_followed_until_the_job_has_ended(cloud, run, jobs):
    cloud.put("out/runs/r/logs/chief-0.log", b"its last word")
    jobs.states = ["JOB_STATE_SUCCEEDED"]
    done = command(cloud, "logs", "--follow")
    assert (done.returncode, done.stdout) == (0, "chief-0 | its last word\n"), done.stderr


def test_a_job_that_cannot_be_asked_about_has_not_ended(cloud, run):
    cloud.fault("customJobs", status=503, times=9)
    assert not remote_jobs.has_ended(JOB)


def test_runs_elsewhere_have_no_job(tmp_path):
    run = RunFolder(str(tmp_path))
    assert remote_jobs.describe_job(run) == []
    assert remote_jobs.stop(run) is None
    assert remote_jobs.refuse_while_going(run) is None
