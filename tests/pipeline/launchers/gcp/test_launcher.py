"""Submission to a job service on loopback; what the job's processes would write, the tests do."""

import json

import pytest

from pipeline import errors
from pipeline.jobs import job
from pipeline.jobs.job import Job
from pipeline.launchers import remote_jobs
from pipeline.launchers.gcp.launcher import GcpLauncher
from pipeline.launchers.local.launcher import LocalLauncher
from pipeline.runs import fatal, run_folder
from tests.cloud import jobs as jobs_module
from tests.pipeline.jobs.jobs import PLACE


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
    settings = [*PLACE, "train.steps=100", "gcp.submissions=1", *overrides]
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
    assert (
        "https://console.cloud.google.com/agent-platform/locations/europe-west4/training/1?" in said
    )
    order = [said.index(f"Vertex AI: {state}") for state in ("pending", "running", "succeeded")]
    assert order == sorted(order)
    assert json.loads(json.dumps(wanted.run.read("run.json")))["status"] == "done"


def test_every_submission_has_a_name_of_its_own(wanted, jobs):
    for _ in range(2):
        jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
        launch(wanted)
    names = [
        variable["value"]
        for sent in jobs.created
        for variable in sent["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"]
        if variable["name"] == fatal.SUBMISSION
    ]
    assert len(set(names)) == 2
    assert [fatal.has_begun(wanted.run, name) for name in names] == [False, True]


def test_a_running_job_is_followed_and_not_submitted_again(wanted, jobs, capsys):
    launcher = GcpLauncher(sleep=interrupt)
    jobs.states = ["JOB_STATE_RUNNING"]
    with pytest.raises(errors.StoppedError, match=r"keeps running as job 1 on Vertex AI. The same"):
        launcher.run(wanted, started=0)
    assert wanted.run.read("run.json")["status"] == "running"
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"
    assert len(jobs.created) == 1
    assert "run r.1 has been submitted already; following it" in capsys.readouterr().out


def interrupt(_: float) -> None:
    """Ctrl-C, between two looks at the job."""
    raise KeyboardInterrupt


def test_ctrl_c_may_also_cancel_the_job(wanted, jobs):
    launcher = GcpLauncher(sleep=interrupt, wants_to_cancel=lambda what: True)
    jobs.states = ["JOB_STATE_RUNNING"]
    with pytest.raises(errors.StoppedError, match=r"^the job of run 'r.1' is cancelled. The sam"):
        launcher.run(wanted, started=0)
    assert wanted.run.read("run.json")["status"] == "stopped"
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"
    assert len(jobs.created) == 2


def leave_at_work(wanted: Job, jobs) -> None:
    """Submits a job, and presses Ctrl-C while it is running."""
    jobs.states = ["JOB_STATE_RUNNING"]
    with pytest.raises(errors.StoppedError, match="keeps running as job 1 on V"):
        GcpLauncher(sleep=interrupt).run(wanted, started=0)


def test_a_job_that_has_ended_well_meanwhile_is_recorded_and_not_sent_again(wanted, jobs):
    leave_at_work(wanted, jobs)
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert GcpLauncher().run(wanted, started=0).status == "done"
    assert wanted.run.read("run.json")["status"] == "done"
    assert len(jobs.created) == 1


def test_a_job_that_failed_meanwhile_is_reported_and_then_resumed(wanted, jobs):
    leave_at_work(wanted, jobs)
    jobs.states, jobs.error = ["JOB_STATE_FAILED"], "machines were taken away"
    with pytest.raises(errors.RetryableError, match="the job failed: machines were taken away"):
        launch(wanted)
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["launches"] == 2
    assert len(jobs.created) == 2


def test_settings_that_a_running_job_does_not_have_are_named(cloud, wanted, jobs, capsys):
    leave_at_work(wanted, jobs)
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    launch(plan(cloud, "train.steps=200"))
    said = capsys.readouterr().out
    assert "changed since then, so not for this job: train.steps: 100 -> 200" in said


def test_launchers_at_other_places_are_kept_off_a_running_run(wanted, jobs):
    leave_at_work(wanted, jobs)
    with pytest.raises(errors.UsageError, match=r"^run 'r.1': is running on Vertex AI \(https:"):
        LocalLauncher().run(wanted, started=0.0)
    jobs.states = ["JOB_STATE_SUCCEEDED"]
    remote_jobs.refuse_while_going(wanted.run)


def test_requests_that_fail_now_and_then_do_not_end_the_following(wanted, cloud, jobs):
    cloud.fault("GET .*customJobs/1", status=503, times=5)
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"


@pytest.mark.parametrize(
    ("status", "kind"), [(503, errors.RetryableError), (401, errors.UsageError)]
)
def test_a_job_that_cannot_be_followed_any_more_keeps_running(wanted, cloud, jobs, status, kind):
    jobs.states = ["JOB_STATE_RUNNING"]
    cloud.fault("GET .*customJobs/1", status=status, times=21)
    with pytest.raises(kind, match=rf"\({status}\)"):
        launch(wanted)
    cloud.api.faults.clear()
    assert wanted.run.read("run.json")["status"] == "running"
    with pytest.raises(errors.UsageError, match="is running on Vertex AI"):
        LocalLauncher().run(wanted, started=0.0)
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"
    assert len(jobs.created) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_job_that_the_record_does_not_name_is_found_and_noted(wanted, jobs, kept):
    leave_at_work(wanted, jobs)
    record = wanted.run.read("run.json")
    wanted.run.remove("run.json")
    if kept:
        wanted.run.write("run.json", {**record, "status": "failed", "job": None})
    leave_at_work(wanted, jobs)
    found = wanted.run.read("run.json")
    assert (found["status"], found["job"]) == ("running", record["job"])
    assert len(jobs.created) == 1


def test_a_job_that_was_deleted_does_not_keep_the_run(wanted, cloud, jobs):
    leave_at_work(wanted, jobs)
    jobs.created[0]["labels"]["run"] = "gone"
    cloud.fault("GET .*customJobs/1", status=404)
    with pytest.raises(errors.RetryableError, match=r"the job failed: .*\(404\). Look at PROJ"):
        launch(wanted)
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"
    assert len(jobs.created) == 2


def test_a_submission_that_is_refused_is_recorded(wanted, cloud, jobs):
    cloud.fault("POST .*customJobs", status=403)
    with pytest.raises(errors.UsageError, match=r"\(403\). Grant the account"):
        launch(wanted)
    record = wanted.run.read("run.json")
    assert (record["status"], record["exit_code"]) == ("failed", 64)


def test_a_final_error_is_reported_with_its_message_and_exit_code(wanted, jobs):
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


def test_a_failure_without_a_recorded_cause_shows_the_error_of_the_service(wanted, jobs):
    jobs.states, jobs.error = ["JOB_STATE_FAILED"], "worker pool 0 is gone."
    with pytest.raises(
        errors.RetryableError,
        match=r"the job failed: worker pool 0 is gone. make logs shows more; the same",
    ):
        launch(wanted)


@pytest.mark.parametrize(
    ("code", "said", "kind", "words"),
    [
        (8, "The following quotas are exceeded: CPUs", errors.RetryableError, "The quota is used "),
        (5, "Failed to pull image x: not found.", errors.UsageError, r"Look that IMAGE=europe-wes"),
        (13, "Failed to pull image x: 503", errors.RetryableError, "make logs shows more; the s"),
        (3, "No column named image", errors.RetryableError, "make logs shows more; the same"),
        (
            5,
            "europe-west4-docker.pkg.dev/my-project/images/estimator-pipeline:1 does not exist",
            errors.UsageError,
            "Look that IMAGE=europe-west4-docker",
        ),
    ],
)
def test_errors_of_a_started_job_say_what_to_do(wanted, jobs, code, said, kind, words):
    jobs.states, jobs.error, jobs.code = ["JOB_STATE_FAILED"], said, code
    with pytest.raises(kind, match=f"^the job failed: {said.rstrip('.')}. {words}"):
        launch(wanted)


def test_a_paused_job_is_cancelled_and_can_be_continued(wanted, jobs):
    jobs.states = ["JOB_STATE_RUNNING", "JOB_STATE_PAUSED"]
    with pytest.raises(errors.RetryableError, match=r"'r.1' was paused, and is cancelled. The sam"):
        launch(wanted)
    assert GcpLauncher().look(f"{jobs_module.PLACE}/customJobs/1").was_cancelled
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    assert launch(wanted)["status"] == "done"


def test_a_job_that_succeeded_in_part_is_done_if_it_has_a_result(wanted, jobs):
    jobs.states = ["JOB_STATE_PARTIALLY_SUCCEEDED"]
    jobs.on_state = lambda _: finishes(wanted)("JOB_STATE_SUCCEEDED")
    assert launch(wanted)["status"] == "done"


@pytest.mark.parametrize("account", [None, "t@p.iam.gserviceaccount.com"])
def test_a_job_without_an_account_of_its_own_is_noted(cloud, wanted, jobs, capsys, account):
    jobs.states, jobs.on_state = ["JOB_STATE_SUCCEEDED"], finishes(wanted)
    launch(plan(cloud, *([f"gcp.service_account={account}"] if account else [])))
    note = "note: gcp.service_account is not set, so processes run as the service's own account"
    assert (note in capsys.readouterr().out) == (account is None)


def test_a_successful_job_without_a_result_is_an_error(wanted, jobs):
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


ENDS_BADLY = ["JOB_STATE_RUNNING", "JOB_STATE_FAILED"]


def test_a_job_that_ends_without_a_final_error_is_submitted_again(cloud, wanted, jobs, capsys):
    wanted = plan(cloud, "gcp.submissions=3")
    jobs.states = [*ENDS_BADLY, "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"]
    jobs.error, jobs.on_state = "Replica worker 0 has been preempted.", finishes(wanted)
    assert launch(wanted)["status"] == "done"
    assert len(jobs.created) == 2
    said = capsys.readouterr().out
    assert "has been preempted" in said and "Submitting it again: 2 of 3" in said


@pytest.mark.usefixtures("wanted")
def test_it_is_submitted_as_often_as_the_config_says(cloud, jobs):
    jobs.states, jobs.error = 4 * ENDS_BADLY, "Replica chief 0 exited with a non-zero status of 75."
    with pytest.raises(errors.RetryableError, match="non-zero status of 75"):
        launch(plan(cloud, "gcp.submissions=2"))
    assert len(jobs.created) == 2


@pytest.mark.parametrize("how", ["final", "stopped", "cancelled"])
def test_a_job_with_a_final_error_is_not_submitted_again(cloud, wanted, jobs, how):
    wanted = plan(cloud, "gcp.submissions=3")

    def on_state(state):
        if state != "JOB_STATE_FAILED" and how != "cancelled":
            return
        if how == "final":
            marker = {"task": "chief-0", "exit_code": 70, "error": "the loss is not a number"}
            wanted.run.write(fatal.MARKER, {"submission": "s", **marker})
        elif how == "stopped":
            wanted.run.write(run_folder.STOP, {"reason": "stop requested"})

    jobs.states, jobs.on_state = [*ENDS_BADLY], on_state
    if how == "cancelled":
        jobs.states = ["JOB_STATE_RUNNING", "JOB_STATE_CANCELLED"]
    with pytest.raises(errors.PipelineError):
        launch(wanted)
    assert len(jobs.created) == 1


def test_modules_that_the_machines_could_not_import_are_refused_before(cloud, wanted, jobs):
    own = "model.name=mine.models:net"
    with pytest.raises(
        errors.UsageError, match=r"names mine.models, which the image .*gcp.package"
    ):
        launch(plan(cloud, own))
    with pytest.raises(errors.UsageError, match="not found; upload the wheel"):
        launch(plan(cloud, own, f"gcp.package={cloud.path('m-1-py3-none-any.whl')}"))
    assert not jobs.created and wanted.run.read("run.json") is None
