"""Submission to a job service on loopback; what the job's processes would write, the tests do."""

import json

import pytest

from pipeline import errors, fatal, job, run_folder
from pipeline.job import Job
from pipeline.launchers.gcp import GcpLauncher
from tests.pipeline.launchers.jobs import PLACE


@pytest.fixture
def jobs(cloud):
    yield cloud.api.jobs
    cloud.api.jobs.clear()


@pytest.fixture
def wanted(cloud, small_records) -> Job:
    """A job whose records are on gs://."""
    for path in (small_records.storage / "records").rglob("*.json"):
        cloud.put(f"out/{path.relative_to(small_records.storage)}", path.read_bytes())
    cloud.put("small.yaml", (small_records.storage / "small.yaml").read_bytes())
    return plan(cloud)


def plan(cloud, *overrides: str) -> Job:
    settings = [*PLACE, "train.steps=100", *overrides]
    root = f"{cloud.root}/out"
    return job.plan(f"{cloud.root}/small.yaml", settings, run="r.1", storage_root=root)


def launch(wanted: Job) -> dict:
    record = GcpLauncher(sleep=lambda _: None, clock=lambda: 107.0).run(wanted, started=100.0)
    return record.model_dump()


def finishes(wanted: Job):
    """Writes what the processes of a job that ends well leave."""

    def on_state(state: str) -> None:
        if state == "JOB_STATE_SUCCEEDED":
            wanted.run.write(run_folder.TRAINING_DONE, {"final_step": 100, "reason": "steps"})
            metrics = {"test": {"accuracy": 0.9, "global_step": 100}}
            result = {"final_step": 100, "metrics": metrics, "exports": {"final": "gs://x"}}
            wanted.run.write(run_folder.RESULT, {**result, "best": None, "input": []})

    return on_state


def test_a_job_is_submitted_followed_and_recorded(wanted, jobs, capsys):
    jobs.states = ["JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"]
    jobs.on_state = finishes(wanted)
    record = launch(wanted)
    assert record["status"] == "done" and record["final_step"] == 100
    assert record["metrics"]["test"]["accuracy"] == 0.9
    assert record["seconds"]["total"] == 7.0
    (sent,) = jobs.created
    assert sent["displayName"] == "r.1" and sent["labels"]["run"] == "r_1"
    said = capsys.readouterr().out
    assert "https://console.cloud.google.com/vertex-ai/locations/europe-west4/training/1?" in said
    order = [said.index(f"Vertex AI: {state}") for state in ("pending", "running", "succeeded")]
    assert order == sorted(order)
    assert json.loads(json.dumps(wanted.run.read("run.json")))["status"] == "done"


def test_every_submission_has_a_name_of_its_own(wanted, jobs):
    for _ in range(2):
        jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
        launch(wanted)
    names = {
        variable["value"]
        for sent in jobs.created
        for variable in sent["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"]
        if variable["name"] == fatal.SUBMISSION
    }
    assert len(names) == 2


def test_a_job_that_is_at_work_is_followed_and_not_sent_again(wanted, jobs, capsys):
    def leave(state: str) -> None:
        raise KeyboardInterrupt

    launcher = GcpLauncher(sleep=lambda _: leave(""))
    jobs.states = ["JOB_STATE_RUNNING"]
    with pytest.raises(errors.RetryableError, match=r"goes on without us. The same command follow"):
        launcher.run(wanted, started=0)
    assert wanted.run.read("run.json")["status"] == "running"
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"
    assert len(jobs.created) == 1
    assert "run r.1 is at work already; following it" in capsys.readouterr().out


def test_requests_that_fail_now_and_then_do_not_end_the_following(wanted, cloud, jobs):
    cloud.fault("GET .*customJobs/1", status=503, times=5)
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"


def test_what_failed_for_good_is_told_in_its_own_words_and_code(wanted, jobs):
    def fail(state: str) -> None:
        content = {"submission": "s", "task": "chief-0", "exit_code": 70, "error": "loss is nan"}
        wanted.run.write(fatal.MARKER, content)

    jobs.states, jobs.on_state = ["JOB_STATE_FAILED"], fail
    with pytest.raises(errors.ModelError, match=r"^chief-0: loss is nan$"):
        launch(wanted)
    record = wanted.run.read("run.json")
    assert record["status"] == "failed" and record["exit_code"] == 70
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"  # the marker was of the other submission


def test_a_job_that_fails_without_words_of_ours_has_those_of_the_service(wanted, jobs):
    jobs.states, jobs.error = ["JOB_STATE_FAILED"], "Failed to pull image x: not found."
    with pytest.raises(
        errors.RetryableError,
        match=r"the job failed: Failed to pull image x: not found. Look at its logs in the console",
    ):
        launch(wanted)


def test_success_without_a_result_is_none(wanted, jobs):
    jobs.states = ["JOB_STATE_SUCCEEDED"]
    with pytest.raises(errors.PipelineError, match=r"ended well, but left no RESULT.json"):
        launch(wanted)


def test_a_run_on_a_disk_is_refused(wanted, small_records, tmp_path):
    local = job.plan(small_records.config_path, PLACE, run="r", storage_root=str(tmp_path))
    with pytest.raises(errors.UsageError, match=r"Google's machines do not see. Use STORAGE=gs://"):
        launch(local)


def test_a_bucket_in_another_region_is_refused(cloud, wanted, jobs):
    with pytest.raises(
        errors.UsageError,
        match=r"the bucket is in europe-west4, the job would be in us-east1: slow.* REGION=e",
    ):
        launch(plan(cloud, "gcp.region=us-east1"))
    assert not jobs.created


def test_records_must_be_there(cloud, jobs, small_records):
    cloud.put("small.yaml", (small_records.storage / "small.yaml").read_bytes())
    with pytest.raises(errors.DataError, match=r"no manifest, so the records are absent"):
        launch(plan(cloud))
