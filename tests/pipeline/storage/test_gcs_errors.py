import pytest
from google.auth import exceptions

from pipeline import errors
from pipeline.storage import gcs_client, gcs_errors, google_api

PATH = "gs://bucket/runs/r/x"


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, errors.UsageError, r"said \(401\): Google does not accept the credentials. Log in"),
        (403, errors.UsageError, r"\(403\): .* Grant them roles/storage.objectAdmin on the bucket"),
        (404, FileNotFoundError, PATH),
        (409, errors.UsageError, r"\(409\): Cloud Storage refuses the request"),
        (410, errors.RetryableError, r"\(410\): Cloud Storage has a problem"),
        (412, errors.RetryableError, r"\(412\): another process wrote it"),
        (429, errors.RetryableError, r"\(429\): too many requests, .* save and summarise less"),
        (503, errors.RetryableError, r"\(503\): Cloud Storage has a problem, even after waiting"),
    ],
)
def test_each_status_says_what_to_do(status, kind, words):
    with pytest.raises(kind, match=words):
        raise gcs_errors.build_status_error(status, PATH, "said")


def test_a_bucket_that_is_not_there_is_distinguished_from_an_object():
    error = gcs_errors.build_status_error(404, PATH, "The specified bucket does not exist.")
    assert isinstance(error, errors.UsageError)
    assert "gcloud storage buckets create gs://bucket, or name another" in str(error)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('{"error": {"code": 403, "message": "no access"}}: (\'Request failed', "no access"),
        ("GET https://storage.googleapis.com/x?y: no access", "no access"),
        ("No such object: b/x: ('Request failed with status code', 404)", "No such object: b/x"),
        ("", "no explanation"),
    ],
)
def test_what_the_service_says_is_found(message, said):
    assert gcs_errors.explanation(message) == said


# As TensorFlow 2.15 words them.
RESPONSE = (
    'Error executing an HTTP request: HTTP response code 403 with body \'{\n "error": {\n'
    ' "code": 403,\n "message": "no access"\n}}\'\n\t when reading metadata of gs://b/x'
)
SILENCE = (
    "Error executing an HTTP request: libcurl code 6 meaning 'Couldn't resolve host name', error "
    "details: Could not resolve host\n\t when initiating an upload to gs://b/x"
)


def test_errors_of_tensorflow_read_the_same():
    refused = gcs_errors.translate_tensorflow_error(RuntimeError(RESPONSE))
    assert isinstance(refused, errors.UsageError)
    assert str(refused).startswith("'gs://b/x': no access (403): the credentials are valid")
    silent = gcs_errors.translate_tensorflow_error(RuntimeError(SILENCE))
    assert isinstance(silent, errors.RetryableError)
    assert str(silent).startswith("'gs://b/x': Cloud Storage cannot be reached (Couldn't resolve")


@pytest.mark.parametrize(
    ("there", "kind", "words"),
    [
        (True, errors.RetryableError, "no token from this machine once"),
        (False, errors.UsageError, ""),
    ],
)
def test_a_missing_token_of_a_google_machine_is_of_a_moment(there, kind, words):
    error = RuntimeError(RESPONSE.replace("403", "401"))
    found = gcs_errors.translate_tensorflow_error(error, on_google_machine=lambda: there)
    assert type(found) is kind and words in str(found)


@pytest.mark.parametrize(
    ("permission", "role"),
    [
        ("storage.buckets.get", "roles/storage.legacyBucketReader"),
        ("storage.objects.create", "roles/storage.objectAdmin"),
    ],
)
def test_the_role_that_is_advised_has_what_is_missing(permission, role):
    said = f"a@b.iam does not have {permission} access to the Google Cloud Storage bucket."
    assert f"Grant them {role} on" in str(gcs_errors.build_status_error(403, PATH, said))


def test_other_errors_of_tensorflow_are_left_alone():
    assert gcs_errors.translate_tensorflow_error(RuntimeError("Socket closed")) is None


def test_no_credentials_say_how_to_get_some(monkeypatch):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    error = gcs_errors.build_credentials_error(PATH, exceptions.DefaultCredentialsError("none"))
    assert "no Google credentials here. Log in with gcloud" in str(error)


BROKEN = {
    "missing": (None, "No such file or directory"),
    "empty": ("", "It has no JSON object"),
    "text": ("key", "It has no JSON object"),
    "list": ("[]", "It has no JSON object"),
    "other": ("{}", "does not have a valid type"),
    "part": ('{"type": "service_account"}', "was not in the expected format, missing fields"),
    "damaged": (
        '{"type": "service_account", "client_email": "a@b", "token_uri": "u", "private_key": "x"}',
        "Failed to load service account credentials",
    ),
}


@pytest.mark.parametrize("case", [*BROKEN, "folder"])
@pytest.mark.parametrize("service", ["storage", "vertex"])
def test_a_key_file_that_cannot_be_used_is_named(case, service, tmp_path, monkeypatch):
    content, words = BROKEN.get(case, (None, "Is a directory"))
    key = tmp_path / "key.json"
    if case == "folder":
        key.mkdir()
    elif content is not None:
        key.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    with pytest.raises(errors.UsageError) as caught:
        if service == "vertex":
            google_api.Api("https://localhost:9", "Vertex AI", "projects/p", "a", "b").ask(
                "GET", "c"
            )
        else:
            with gcs_client.translate_errors(PATH):
                gcs_client.client_of(-1)
    said = str(caught.value)
    assert f"the key file in GOOGLE_APPLICATION_CREDENTIALS, {str(key)!r}, cannot be" in said
    assert words in said and "\n" not in said and "no Google credentials here" not in said
