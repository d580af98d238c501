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
    with _named(GOOGLE), gcs_client.patience(_PATIENCE):
        text = secrets.token_hex(8)
        storage.write_text(path, text)
        found = storage.read_text(path)
        storage.remove(path)
        if found != text:
            raise errors.RetryableError(f"{path!r}: holds {found!r} after {text!r} was written")
    return path


def check_region(path: str, region: str | None) -> None:
    """Raises `UsageError` if the bucket of a path is in another region than a job that uses it."""
    found = gcs.location(path)
    if "-" in found and found != region:
        raise errors.UsageError(
            f"{path!r}: the bucket is in {found}, the job would be in {region}: slow, and paid by "
            f"the byte. Use a bucket there, or REGION={found}"
        )


def _ask_tensorflow(path: str, surroundings: Mapping[str, str], *, patience: float) -> None:
    variables = {**_QUICK, **environment.for_children(surroundings)}
    if not gcs_client.on_google_machine():
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
        raise errors.of_exit_code(done.returncode, f"{TENSORFLOW}: {said}")


@contextlib.contextmanager
def _named(client: str) -> Iterator[None]:
    try:
        yield
    except errors.PipelineError as error:
        raise errors.of_exit_code(error.exit_code, f"{client}: {error}") from None
