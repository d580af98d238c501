"""Google's client of Cloud Storage: its credentials, its patience, and its errors as ours."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Iterator
from typing import Any

from pipeline import errors
from pipeline.storage import gcs_errors

# What TensorFlow's client reads when it is loaded: otherwise it takes the length that an object had
# up to five seconds ago for the one it has, and cuts the list of checkpoints short.
os.environ.setdefault("GCS_STAT_CACHE_MAX_AGE", "0")
# And how many bytes it fetches for a read of fewer: 64 MiB otherwise, of which a block at a random
# place uses a hundredth. A larger read fetches what it asks for, and no more
# (BufferedGcsRandomAccessFile in gcs_file_system.cc of 2.15). A skip to an offset reads one byte.
LEAST_READ = 4096
os.environ.setdefault("GCS_READAHEAD_BUFFER_SIZE_BYTES", str(LEAST_READ))
_patience = 120.0  # seconds during which a request is tried again


@functools.lru_cache(maxsize=1)
def client_of(pid: int) -> Any:
    """Returns the client of this process; one made before a fork must not be used after it."""
    # How long to wait for a server that only machines of Google have.
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "1")
    import google.cloud.storage

    gcs_errors.check_key_file()
    # A project is only needed to make buckets.
    return google.cloud.storage.Client(project="none")


@contextlib.contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Turns what Google's client raises into ours, about `path`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own end of life, years ahead
        import google.api_core.exceptions as api
    import google.auth.exceptions as auth
    import requests

    try:
        yield
    except api.RetryError as error:
        raise gcs_errors.build_unreachable_error(path, str(error.cause or error)) from None
    except api.GoogleAPICallError as error:
        said = gcs_errors.explanation(str(error.message))
        raise gcs_errors.build_status_error(int(error.code or 500), path, said) from None
    except auth.DefaultCredentialsError as error:
        raise gcs_errors.build_credentials_error(path, error) from None
    except auth.RefreshError as error:
        said = str(error.args[0] if error.args else error)
        raise gcs_errors.build_status_error(401, path, said) from None
    except (auth.TransportError, requests.exceptions.RequestException) as error:
        raise gcs_errors.build_unreachable_error(path, str(error)) from None


def client() -> Any:
    """Returns the client of this process."""
    return client_of(os.getpid())


def is_on_google_machine() -> bool:
    """True if the credentials are those of the machine itself, which Google gives it."""
    from google.auth import compute_engine

    return isinstance(client()._credentials, compute_engine.Credentials)


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Within the block, requests are tried again for so long and no longer."""
    global _patience
    before, _patience = _patience, seconds
    try:
        yield
    finally:
        _patience = before


def retry() -> Any:
    """Returns for how long a request is tried again."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(_patience)


def split_path(path: str) -> tuple[str, str]:
    """Returns bucket and name. Raises `UsageError` for a path without a bucket."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket:
        raise errors.UsageError(f"path {path!r}: names no bucket; it must be gs://bucket/folder")
    return bucket, name.strip("/")


def blob_at(path: str) -> Any:
    """Returns the object of a path, about which nothing has been asked yet."""
    bucket, name = split_path(path)
    return client().bucket(bucket).blob(name)


def fetch_blob(path: str) -> Any:
    """Returns an object with its size, generation and time. Raises `FileNotFoundError`."""
    blob = blob_at(path)
    blob.reload(retry=retry())
    return blob
