import pytest

from pipeline import errors
from pipeline.launchers.gcp import service_client
from pipeline.launchers.gcp.service_client import Service
from pipeline.storage import google_api
from tests.cloud.jobs import PLACE

REGION = "europe-west4"
RUN = "gs://bucket/out/runs/r"
BODY = {
    "displayName": "r",
    "labels": {"run": "r"},
    "jobSpec": {"workerPoolSpecs": [], "baseOutputDirectory": {"outputUriPrefix": RUN}},
}


@pytest.fixture
def jobs(cloud):
    yield cloud.api.jobs
    cloud.api.jobs.clear()


def service() -> Service:
    return Service("my-project", REGION)


def test_a_job_is_created_found_and_looked_at(jobs):
    name = service().create(BODY)
    assert jobs.created == [BODY]
    assert name == "projects/my-project/locations/europe-west4/customJobs/1"
    assert service().find("r", RUN) == name
    assert service().find("other", RUN) is None
    jobs.states = ["JOB_STATE_SUCCEEDED"]
    assert service().get(name)["state"] == "JOB_STATE_SUCCEEDED"
    assert service().find("r", RUN) is None


def test_a_run_of_that_name_in_another_bucket_is_another_run(jobs):
    service().create(BODY)
    assert service().find("r", "gs://other/out/runs/r") is None


def test_a_job_of_others_that_names_no_folder_is_another_run(jobs):
    service().create({**BODY, "jobSpec": {"workerPoolSpecs": []}})
    assert service().find("r", RUN) is None


def test_a_job_that_was_deleted_has_failed(cloud, jobs):
    name = service().create(BODY)
    cloud.fault("GET .*customJobs/1", status=404)
    found = service().get(name)
    assert found["state"] == "JOB_STATE_FAILED"
    assert "(404)" in found["error"]["message"]


def test_a_job_can_be_cancelled_by_its_name_alone(jobs):
    name = service().create(BODY)
    service_client.service_of_job(name).cancel(name)
    assert service().get(name)["state"] == "JOB_STATE_CANCELLED"
    assert service().find("r", RUN) is None


def test_the_link_leads_to_the_console():
    link = service_client.link("projects/123/locations/europe-west4/customJobs/456")
    assert link == (
        "https://console.cloud.google.com/agent-platform/locations/europe-west4/training/456?project=123"
    )


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, errors.UsageError, r"injected \(400\). Correct the gcp: section of the config"),
        (401, errors.UsageError, r"\(401\). Google does not accept the credentials. Log in"),
        (403, errors.UsageError, r"\(403\). Grant the account roles/aiplatform.user"),
        (404, errors.UsageError, r"\(404\). Look at PROJECT= and REGION="),
        (429, errors.RetryableError, r"\(429\). The quota is used up"),
        (503, errors.RetryableError, r"\(503\). The service has a problem; run the same"),
    ],
)
def test_each_refusal_says_what_to_do(cloud, jobs, status, kind, words):
    cloud.fault("aiplatform", status=status, times=9)
    with pytest.raises(kind, match=f"^Vertex AI, projects/my-project/.*{words}"):
        service().create(BODY)
    assert not jobs.created


def test_a_region_that_is_not_there_is_reported(cloud, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(errors.RetryableError, match=r"cannot be reached .*and the region, then"):
        service().find("r", RUN)


def test_a_job_is_found_among_hundreds(jobs):
    """They come in pages, and those that have ended are not asked for."""
    for number in range(5):
        service().create({**BODY, "jobSpec": {"baseOutputDirectory": {}}})
        if number % 2:
            service().cancel(f"{PLACE}/customJobs/{number + 1}")
    name = service().create(BODY)
    assert service().find("r", RUN) == name
    assert jobs.pages == 2


def test_who_may_not_let_a_job_run_as_another_account_is_told_which_role():
    said = "You do not have permission to act as service account: t@p.iam.gserviceaccount.com"
    api = google_api.Api("https://x/v1", "Vertex AI", "projects/p", "x", "roles/aiplatform.user")
    refusal = api.refusal(403, said)
    assert type(refusal) is errors.UsageError
    assert "roles/iam.serviceAccountUser on gcp.service_account" in str(refusal)
    assert "Grant the account roles/aiplatform.user" in str(api.refusal(403, "exact reason"))
