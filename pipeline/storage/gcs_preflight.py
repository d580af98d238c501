"""Finds out before a job whether both clients of Cloud Storage can use its folder.

Google's and TensorFlow's look for credentials, proxies and certificates in different places. Where
one has nothing, TensorFlow's asks a server that is not there for minutes: here it is given seconds,
in a process of its own (docs/tensorflow-pitfalls.md#two-clients, #missing-credentials).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping

from pipeline import errors, storage
from pipeline.processes import environment
from pipeline.storage import gcs, gcs_client

GOOGLE, TENSORFLOW = "Google's client", "TensorFlow's client"
_DAY = 24 * 3600
_PATIENCE = 8.0  # seconds for requests of Google's client
_TENSORFLOW_PATIENCE = 120.0  # of which its import may take a minute on a machine that is busy
_QUICK = {
    "GCS_RETRY_CONFIG_MAX_RETRIES": "2",
    "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "100000",
    "GCS_RETRY_CONFIG_MAX_DELAY_TIME_US": "1000000",
}


def check(root: str, *, tensorflow_patience: float = _TENSORFLOW_PATIENCE) -> None:
    """Writes, reads and removes an object in `root` with each client; does nothing for a disk.

    Raises `UsageError` or `RetryableError` that names the client which cannot, and says why; the
    latter, too, if TensorFlow's has not answered in `tensorflow_patience` seconds.
    """
    if storage.is_remote(root):
        path = f"{check_google(root)}-tensorflow"
        _ask_tensorflow(path, os.environ, patience=tensorflow_patience)


def check_google(root: str) -> str:
    """Asks Google's client alone, which is all that preprocessing needs; returns the object that
    was there for a moment."""
    path = storage.join(root, f".preflight-{secrets.token_hex(4)}")
    with _name_client(GOOGLE), gcs_client.patience(_PATIENCE):
        text = secrets.token_hex(8)
        storage.write_text(path, text)
        found = storage.read_text(path)
        storage.remove(path)
        if found != text:
            raise errors.RetryableError(f"{path!r}: holds {found!r} after {text!r} was written")
    return path


def check_bucket(path: str, region: str | None) -> list[str]:
    """Returns notes on what the bucket of a path costs a job in `region`. Raises `UsageError` if it
    is in another region."""
    found = gcs.bucket(path)
    if found is None:
        return [
            f"whether the bucket of {path!r} is in {region} is not known: the account may use "
            "it, but not look at it, which takes roles/storage.legacyBucketReader"
        ]
    if "-" in found.location and found.location != region:
        raise errors.UsageError(
            f"{path!r}: the bucket is in {found.location}, the job would be in {region}: slow, and "
            f"paid by the byte. Use a bucket there, or REGION={found.location}"
        )
    if not found.kept_seconds:
        return []
    return [
        f"gs://{found.name} keeps what is removed or replaced for {found.kept_seconds / _DAY:g} "
        "days, and charges for it: each old checkpoint, log and status. Turn that off with "
        f"gcloud storage buckets update gs://{found.name} --clear-soft-delete"
    ]


def _ask_tensorflow(path: str, surroundings: Mapping[str, str], *, patience: float) -> None:
    variables = {**_QUICK, **environment.filter_for_children(surroundings), **environment.QUIET}
    if not gcs_client.is_on_google_machine():
        variables["NO_GCE_CHECK"] = "true"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline.storage.gcs_probe", path],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        raise errors.RetryableError(
            f"{TENSORFLOW}: no answer about {path!r} in {patience:.0f} s, while "
            "Google's got one. Look at HTTPS_PROXY, CURL_CA_BUNDLE and the credentials, of which "
            "it knows service account keys and gcloud's login"
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        said = last.removeprefix("error: ")
        raise errors.build_from_exit_code(done.returncode, f"{TENSORFLOW}: {said}")


@contextlib.contextmanager
def _name_client(client: str) -> Iterator[None]:
    try:
        yield
    except errors.PipelineError as error:
        raise errors.build_from_exit_code(error.exit_code, f"{client}: {error}") from None
