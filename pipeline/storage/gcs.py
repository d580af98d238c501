"""Objects of Cloud Storage, through Google's own client. Used by `pipeline.storage` alone.

TensorFlow's client is left to what TensorFlow reads and writes itself: records in training,
checkpoints, events, exports. It remembers lengths for seconds, so that a small file which others
rewrite is cut short; it cannot write on a condition; and importing it takes seconds.

Every function raises what `gcs_errors` says; `FileNotFoundError` for an object that is not there.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import functools
import io
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pipeline import errors
from pipeline.console import work
from pipeline.storage import gcs_errors

# Bytes fetched at a time: doubled from the first to the second for sequential reads.
_LEAST, _MOST = 256 << 10, 8 << 20
_PART = 8 << 20  # bytes of one part of an upload
_patience = 120.0  # seconds during which a request is tried again
_AT_ONCE = 8  # deletions under way
_ATTEMPTS = 5
# What TensorFlow's client reads when it is loaded: otherwise it takes the length that an object had
# up to five seconds ago for the one it has, and cuts the list of checkpoints short.
os.environ.setdefault("GCS_STAT_CACHE_MAX_AGE", "0")

_WILD = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]")


@functools.lru_cache(maxsize=1)
def _client_of(pid: int) -> Any:
    """Returns the client of this process; one made before a fork must not be used after it."""
    # How long to wait for a server that only machines of Google have.
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "1")
    from google.cloud import storage  # type: ignore[attr-defined]

    # A project is only needed to make buckets.
    return storage.Client(project="none")


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turns what Google's client raises into ours, about `path`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own end of life, years ahead
        import google.api_core.exceptions as api
    import google.auth.exceptions as auth
    import requests

    try:
        yield
    except api.RetryError as error:
        raise gcs_errors.unreachable(path, str(error.cause or error)) from None
    except api.GoogleAPICallError as error:
        said = gcs_errors.explanation(str(error.message))
        raise gcs_errors.of_status(int(error.code or 500), path, said) from None
    except auth.DefaultCredentialsError:
        raise gcs_errors.no_credentials(path) from None
    except auth.RefreshError as error:
        said = str(error.args[0] if error.args else error)
        raise gcs_errors.of_status(401, path, said) from None
    except (auth.TransportError, requests.exceptions.RequestException) as error:
        raise gcs_errors.unreachable(path, str(error)) from None


def _client() -> Any:
    return _client_of(os.getpid())


def on_google_machine() -> bool:
    """True if the credentials are those of the machine itself, which Google gives it."""
    from google.auth import compute_engine

    return isinstance(_client()._credentials, compute_engine.Credentials)


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Within the block, requests are tried again for so long and no longer."""
    global _patience
    before, _patience = _patience, seconds
    try:
        yield
    finally:
        _patience = before


def _retry() -> Any:
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(_patience)


def _split(path: str) -> tuple[str, str]:
    """Returns bucket and name. Raises `UsageError` for a path without a bucket."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket:
        raise errors.UsageError(f"path {path!r}: names no bucket; it must be gs://bucket/folder")
    return bucket, name.strip("/")


def _blob(path: str) -> Any:
    bucket, name = _split(path)
    return _client().bucket(bucket).blob(name)


def _below(path: str, **how: Any) -> Any:
    """Lists the objects in the folder `path`, at any depth unless `how` has a delimiter."""
    bucket, name = _split(path)
    prefix = f"{name}/" if name else ""
    return _client().list_blobs(bucket, prefix=prefix, retry=_retry(), **how)


def _described(path: str) -> Any:
    """Returns an object with its size, generation and time. Raises `FileNotFoundError`."""
    blob = _blob(path)
    blob.reload(retry=_retry())
    return blob


def exists(path: str) -> bool:
    """True if there is an object of that name, or one in a folder of that name."""
    with explained(path):
        if _split(path)[1] and _blob(path).exists(retry=_retry()):
            return True
        return any(True for _ in _below(path, max_results=1))


def location(path: str) -> str:
    """Returns where the bucket of a path is: a region such as europe-west4, or eu, us, asia."""
    with explained(path):
        return str(_client().get_bucket(_split(path)[0], retry=_retry()).location).lower()


def size(path: str) -> int:
    """Returns the length of an object in bytes."""
    with explained(path):
        return int(_described(path).size)


def describe(paths: Sequence[str]) -> list[tuple[int, str, str] | None]:
    """Returns length, generation and CRC-32C (hexadecimal) of objects, in few requests; `None` for
    those that are not there."""
    found = {}
    for folder in {path.rpartition("/")[0] for path in paths}:
        with explained(folder):
            for blob in _below(folder, delimiter="/"):
                found[f"gs://{_split(folder)[0]}/{blob.name}"] = _details(blob)
    for path in paths:
        if path not in found:  # a listing may be late
            with contextlib.suppress(FileNotFoundError), explained(path):
                found[path] = _details(_described(path))
    return [found.get(path) for path in paths]


def _details(blob: Any) -> tuple[int, str, str]:
    return int(blob.size), str(blob.generation), base64.b64decode(blob.crc32c).hex()


def modified(path: str) -> float:
    """Returns when an object was last written, as Unix time in seconds."""
    with explained(path):
        return float(_described(path).updated.timestamp())


def listdir(path: str) -> list[str]:
    """Returns the names in a folder, sorted; an absent folder is empty."""
    start = len(_split(path)[1]) + 1 if _split(path)[1] else 0
    with explained(path):
        found = _below(path, delimiter="/")
        names = {blob.name[start:] for blob in found}
        names |= {prefix[start:].rstrip("/") for prefix in found.prefixes}
    return sorted(names - {""})


def glob(pattern: str) -> list[str]:
    """Returns the objects that fit a pattern, sorted; `**` stands for any folders."""
    wild = _WILD.search(pattern)
    folder = pattern[: wild.start()].rpartition("/")[0] if wild else pattern.rpartition("/")[0]
    fits = re.compile(_as_regex(pattern))
    bucket = _split(pattern)[0]
    with explained(pattern):
        found = [f"gs://{bucket}/{blob.name}" for blob in _below(folder)]
    return sorted(path for path in found if fits.fullmatch(path) and not path.endswith("/"))


def _as_regex(pattern: str) -> str:
    """Returns a pattern of the shell as a regular expression; a star stays in its folder."""
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts, end = [], 0
    for wild in _WILD.finditer(pattern):
        parts.append(re.escape(pattern[end : wild.start()]))
        parts.append(known.get(wild[0]) or wild[0].replace("[!", "[^"))
        end = wild.end()
    return "".join([*parts, re.escape(pattern[end:])])


def makedirs(path: str) -> None:
    """Checks that the bucket can be listed: folders need not be made."""
    with explained(path):
        list(_below(path, max_results=1))


def read_bytes(path: str) -> bytes:
    """Returns a whole object, its checksum compared."""
    with explained(path):
        return bytes(_blob(path).download_as_bytes(raw_download=True, retry=_retry()))


def write_bytes(path: str, content: bytes, *, new: bool = False) -> None:
    """Writes an object that readers see whole or not at all.

    The write is conditional on the generation that was there before. So one that is late, or sent
    twice because its answer was lost, never replaces what others have written meanwhile. Raises
    `FileExistsError` if it must be `new` and another is there.
    """
    for _ in range(_ATTEMPTS):
        try:
            replace(path, content, 0 if new else generation(path))
            return
        except FileExistsError:
            if new:
                raise
    raise errors.RetryableError(
        f"{path!r}: other processes write it all the time. Look who else uses this folder"
    )


def generation(path: str) -> int:
    """Returns the number of what an object holds now, or 0 if there is none."""
    bucket, name = _split(path)
    with explained(path):
        found = _client().bucket(bucket).get_blob(name, retry=_retry())
    return int(found.generation) if found else 0


def replace(path: str, content: bytes, before: int) -> int:
    """Writes an object of which `before` is the generation, 0 if it must be new.

    Returns its new generation. Raises `FileExistsError` if others have written it since.
    """
    import google.api_core.exceptions as api

    with explained(path):
        blob = _blob(path)
        with contextlib.suppress(api.PreconditionFailed):
            blob.upload_from_string(content, if_generation_match=before, retry=_retry())
            return int(blob.generation)
        with contextlib.suppress(api.NotFound):
            blob.reload(retry=_retry())
            if blob.download_as_bytes(raw_download=True, retry=_retry()) == content:
                return int(blob.generation)  # ours: only the answer was lost
    raise FileExistsError(path)


def remove_generation(path: str, last: int) -> None:
    """Removes an object of which `last` is the generation; another is left."""
    import google.api_core.exceptions as api

    with explained(path), contextlib.suppress(api.NotFound, api.PreconditionFailed):
        _blob(path).delete(if_generation_match=last, retry=_retry())


def remove(path: str) -> None:
    """Removes an object and what is in a folder of that name; absent is fine."""
    import google.api_core.exceptions as api

    def delete(blob: Any) -> None:
        with contextlib.suppress(api.NotFound):
            blob.delete(retry=_retry())

    with explained(path), concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        own: Iterable[Any] = [_blob(path)] if _split(path)[1] else []
        # At the first error the others are still waited for, then it is raised.
        list(pool.map(delete, [*own, *_below(path)]))


def copy(source: str, target: str) -> None:
    """Copies an object within Cloud Storage; nothing is downloaded."""
    with explained(source):
        blob, token = _blob(target), None
        while True:
            token, _, _ = blob.rewrite(_blob(source), token=token, retry=_retry())
            if token is None:
                return


def upload(local: str, path: str) -> None:
    """Writes a local file to an object."""
    with explained(path), open(local, "rb") as file:
        content, size = work.CountedFile(file), os.path.getsize(local)
        _blob(path).upload_from_file(content, size=size, retry=_retry())


def open_file(path: str, mode: str) -> Any:
    """Opens an object for `rb` or `wb`. One that is written appears when it is closed."""
    if mode == "wb":
        return _Writing(path)
    assert mode == "rb", mode
    return io.BufferedReader(_Reading(path), _LEAST)


class _Reading(io.RawIOBase):
    """One generation of an object, read by ranges."""

    def __init__(self, path: str) -> None:
        self._path = path
        with explained(path):
            self._blob = _described(path)
        self._size, self._position = int(self._blob.size), 0
        # What has been fetched, and where it is in the object.
        self._held, self._held_at, self._ahead = b"", 0, _LEAST // 2

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fills `buffer` and returns by how many bytes; 0 at the end."""
        target = memoryview(buffer).cast("B")
        start = self._position - self._held_at
        if not 0 <= start < len(self._held):
            goes_on = start == len(self._held)
            self._ahead = min(2 * self._ahead, _MOST) if goes_on else _LEAST
            self._held = self._fetch(max(len(target), self._ahead))
            self._held_at, start = self._position, 0
        content = self._held[start : start + len(target)]
        self._position += len(content)
        target[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Returns all that is left."""
        content = self._fetch(self._size)
        self._position = self._size
        return content

    def _fetch(self, most: int) -> bytes:
        end = min(self._position + most, self._size)
        if end <= self._position:
            return b""
        with explained(self._path):
            content = self._blob.download_as_bytes(
                start=self._position,
                end=end - 1,
                raw_download=True,
                if_generation_match=self._blob.generation,
                retry=_retry(),
            )
        return bytes(content)


class _Writing(io.BufferedIOBase):
    """An object that is being uploaded in parts."""

    def __init__(self, path: str) -> None:
        self._path, self._written = path, 0
        with explained(path):
            self._inner = _blob(path).open(
                "wb", ignore_flush=True, chunk_size=_PART, retry=_retry()
            )

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        with explained(self._path):
            size = int(self._inner.write(content))
        self._written += size
        return size

    def close(self) -> None:
        """Makes the object appear."""
        if not self.closed:
            try:
                with explained(self._path):
                    self._inner.close()
            finally:
                super().close()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Drops what was written if the block has failed."""
        if kind is None:
            self.close()
            return
        with contextlib.suppress(Exception):
            self._inner.terminate()  # otherwise the collector would complete it
        super().close()
