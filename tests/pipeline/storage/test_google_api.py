import pytest
from google.oauth2 import credentials

from pipeline import errors
from pipeline.storage import google_api
from pipeline.storage.google_api import Api, NotThere
from tests.cloud.jobs import PLACE

ROOT = "https://europe-west4-aiplatform.googleapis.com/v1"


def api(root: str = ROOT) -> Api:
    return Api(root, "Vertex AI", PLACE, "aiplatform.googleapis.com", "roles/aiplatform.user")


def test_an_answer_is_what_the_service_says(cloud):
    assert api().ask("GET", f"{PLACE}/customJobs", params={"filter": "labels.run=x"}) == {
        "customJobs": []
    }


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, errors.UsageError, "Correct the gcp: section of the config; DRY_RUN=1 shows what is"),
        (401, errors.UsageError, "Google does not accept the credentials. Log in with gcloud auth"),
        (
            403,
            errors.UsageError,
            "Grant the account roles/aiplatform.user, and enable aiplatform.g",
        ),
        (404, errors.UsageError, "Look at PROJECT= and REGION="),
        (409, errors.UsageError, "Correct the gcp: section"),
        (408, errors.RetryableError, "The service has a problem; run the same command again"),
        (429, errors.RetryableError, "The quota is used up: wait, ask for more, or use other mach"),
        (500, errors.RetryableError, "The service has a problem"),
    ],
)
def test_each_status_says_what_to_do(status, kind, words):
    error = api().refusal(status, "machine type big is not supported.")
    assert type(error) is kind
    assert str(error).startswith(
        f"Vertex AI, {PLACE}: machine type big is not supported ({status}). {words}"
    )


def test_a_name_that_is_not_known_can_be_distinguished_from_other_refusals(cloud):
    cloud.fault("GET .*customJobs/1", status=404)
    with pytest.raises(NotThere, match=r"\(404\). Look at PROJECT= and REGION="):
        api().ask("GET", f"{PLACE}/customJobs/1")


def test_missing_credentials_are_reported(cloud, monkeypatch, tmp_path):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(errors.UsageError, match=f"^'{PLACE}': there are no Google credentials her"):
        api().ask("GET", PLACE)


def test_credentials_that_have_ended_are_a_401(cloud):
    cloud.fault("oauth2.googleapis.com/token", status=400, times=9)
    with pytest.raises(errors.UsageError, match=r"\(401\). Google does not accept the credentials"):
        api().ask("GET", PLACE)


def test_a_service_that_does_not_answer_is_named(cloud, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(
        errors.RetryableError, match=rf"^{ROOT}: cannot be reached .* the region, t"
    ):
        api().ask("GET", PLACE)


@pytest.mark.parametrize(("given", "found"), [(None, "my-project"), ("other", "other")])
def test_a_person_s_credentials_are_charged_to_the_project_of_the_job(given, found):
    person = credentials.Credentials("token", quota_project_id=given)
    assert google_api.with_quota(person, "my-project").quota_project_id == found
    assert google_api.with_quota("of a machine", "my-project") == "of a machine"
