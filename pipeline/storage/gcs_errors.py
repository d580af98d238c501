"""What Cloud Storage refuses, in one line that says what to do: the same whichever client asks.

TensorFlow has a client of its own, in C++; everything else here uses Google's, in Python. Their
errors have the HTTP status in common.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable

from pipeline import errors

_LOGIN = (
    "Log in with gcloud auth application-default login, or name the key file of a service account "
    "in GOOGLE_APPLICATION_CREDENTIALS"
)
# Google names the permission that is missing. The first role does not have those of the bucket:
# https://cloud.google.com/storage/docs/access-control/iam-roles
_ROLE, _ROLE_OF_BUCKET = "roles/storage.objectAdmin", "roles/storage.legacyBucketReader"
_PERMISSION = re.compile(r"\bstorage\.buckets\.(get|list)\b")
# What TensorFlow's client says of any response but success.
_HTTP = re.compile(r"HTTP response code (\d+)(?: with body '(?P<body>.*)')?", re.DOTALL)
_PLACE = re.compile(r"when [^\n]*?(gs://\S+)")
_UNREACHABLE = re.compile(r"libcurl code \d+ meaning '(.*?)', error")
_MESSAGE = re.compile(r'"message":\s*"([^"]*)"')


_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


def check_key_file() -> None:
    """Raises Google's `DefaultCredentialsError` for a key file of which its library would raise
    something else: a folder, one that may not be read, JSON that is no object."""
    from google.auth import exceptions

    named = os.environ.get(_KEY_FILE)
    if not named:
        return
    try:
        with open(named, "rb") as file:
            found = json.load(file)
    except OSError as error:
        raise exceptions.DefaultCredentialsError(error.strerror) from None
    except ValueError:  # no JSON, or no UTF-8
        found = None
    if not isinstance(found, dict):
        raise exceptions.DefaultCredentialsError("It has no JSON object")


def build_credentials_error(path: str, error: Exception) -> errors.UsageError:
    """Returns the error for a machine whose Google credentials are missing or broken; `error` is
    what Google's library raised."""
    if named := os.environ.get(_KEY_FILE):
        said = ": ".join(str(one).splitlines()[0].rstrip(".") for one in error.args if str(one))
        return errors.UsageError(
            f"{path!r}: the key file in {_KEY_FILE}, {named!r}, cannot be used: {said}. Name the "
            "key file of a service account there; or unset it, and log in with gcloud auth "
            "application-default login"
        )
    return errors.UsageError(f"{path!r}: there are no Google credentials here. {_LOGIN}")


def build_status_error(
    status: int, path: str, said: str
) -> errors.PipelineError | FileNotFoundError:
    """Returns the error for an HTTP status; `said` is the service's own explanation."""
    place = f"{path!r}: {said.rstrip('.')} ({status})"
    bucket = path.removeprefix("gs://").partition("/")[0]
    if status == 401:
        return errors.UsageError(f"{place}: Google does not accept the credentials. {_LOGIN}")
    if status == 403:
        return errors.UsageError(
            f"{place}: the credentials are valid, but not enough. Grant them "
            f"{_ROLE_OF_BUCKET if _PERMISSION.search(said) else _ROLE} on the bucket"
        )
    if status == 404 and "bucket does not exist" in said:
        return errors.UsageError(
            f"{place}. Make it with gcloud storage buckets create gs://{bucket}, or name another"
        )
    if status == 404:
        return FileNotFoundError(path)
    if status == 412:
        return errors.RetryableError(f"{place}: another process wrote it. Look who else does")
    if status == 429:
        return errors.RetryableError(
            f"{place}: too many requests, even after waiting. Run the same command again, more "
            "gently: save and summarise less often"
        )
    if 400 <= status < 500 and status not in (408, 410):
        return errors.UsageError(f"{place}: Cloud Storage refuses the request")
    return errors.RetryableError(
        f"{place}: Cloud Storage has a problem, even after waiting. Run the same command again"
    )


def explanation(message: str) -> str:
    """Returns what the service itself says in a message of Google's client."""
    if found := _MESSAGE.search(message):
        return found[1]
    plain = re.sub(r"^[A-Z]+ https?://\S+: ", "", message).partition(": ('Request failed")[0]
    return plain.strip() or "no explanation"


def translate_tensorflow_error(
    error: Exception, *, on_google_machine: Callable[[], bool] | None = None
) -> errors.PipelineError | FileNotFoundError | None:
    """Returns our error for one that TensorFlow's client raised, or `None` if it is of another
    kind.

    Its 401 is of a moment on a machine that gets its credentials from Google: where one request for
    a token has failed, the client sends none at all until the process ends (`GetToken` of
    google_auth_provider.cc in 2.15).
    """
    text = str(error)
    place = _PLACE.search(text)
    path = place[1].rstrip("'\".,") if place else "gs://"
    if found := _HTTP.search(text):
        if found[1] == "401" and (on_google_machine or _is_on_google_machine)():
            return errors.RetryableError(
                f"{path!r}: TensorFlow's client got no token from this machine once (401), and "
                "asks for none again. Run the same command again"
            )
        return build_status_error(int(found[1]), path, explanation(found["body"] or ""))
    if found := _UNREACHABLE.search(text):
        return build_unreachable_error(path, found[1])
    return None


def _is_on_google_machine() -> bool:
    """True if the credentials are those of the machine itself, which Google gives it."""
    from google.auth import exceptions

    from pipeline.storage import gcs_client  # it imports this module

    try:
        return gcs_client.is_on_google_machine()
    except exceptions.GoogleAuthError:
        return False


def build_unreachable_error(path: str, why: str) -> errors.RetryableError:
    """Returns the error for a service that does not answer at all."""
    return errors.RetryableError(
        f"{path!r}: Cloud Storage cannot be reached ({why.splitlines()[0] if why else 'no answer'})"
        ". Look at the network and its proxy, then run the same command again"
    )
