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
import dataclasses
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline import errors
from pipeline.console import work
from pipeline.storage.gcs_client import (
    blob_at,
    client,
    fetch_blob,
    retry,
    split_path,
    translate_errors,
)

_AT_ONCE = 8  # deletions under way
_ATTEMPTS = 5
_WILD = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]")


def _list_below(path: str, **how: Any) -> Any:
    """Lists the objects in the folder `path`, at any depth unless `how` has a delimiter."""
    bucket, name = split_path(path)
    prefix = f"{name}/" if name else ""
    return client().list_blobs(bucket, prefix=prefix, retry=retry(), **how)


def exists(path: str) -> bool:
    """True if there is an object of that name, or one in a folder of that name."""
    with translate_errors(path):
        if split_path(path)[1] and blob_at(path).exists(retry=retry()):
            return True
        return any(True for _ in _list_below(path, max_results=1))


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A bucket: its `location` is a region such as europe-west4, or eu, us, asia; what is removed
    from it is kept, and paid for, for `kept_seconds` more."""

    name: str
    location: str
    kept_seconds: int


def bucket(path: str) -> Bucket | None:
    """Returns the bucket of a path; `None` if its objects may be read, but nothing about it."""
    import google.api_core.exceptions as api

    name = split_path(path)[0]
    with translate_errors(path):
        try:
            found = client().get_bucket(name, retry=retry())
        except api.Forbidden:
            return None
    kept = found.soft_delete_policy.retention_duration_seconds
    return Bucket(name, str(found.location).lower(), int(kept or 0))


def size(path: str) -> int:
    """Returns the length of an object in bytes."""
    with translate_errors(path):
        return int(fetch_blob(path).size)


def describe(paths: Sequence[str]) -> list[tuple[int, str, str] | None]:
    """Returns length, generation and CRC-32C (hexadecimal) of objects, in few requests; `None` for
    those that are not there."""
    found = {}
    for folder in {path.rpartition("/")[0] for path in paths}:
        with translate_errors(folder):
            for blob in _list_below(folder, delimiter="/"):
                found[f"gs://{split_path(folder)[0]}/{blob.name}"] = _read_details(blob)
    for path in paths:
        if path not in found:  # a listing may be late
            with contextlib.suppress(FileNotFoundError), translate_errors(path):
                found[path] = _read_details(fetch_blob(path))
    return [found.get(path) for path in paths]


def _read_details(blob: Any) -> tuple[int, str, str]:
    return int(blob.size), str(blob.generation), base64.b64decode(blob.crc32c).hex()


def get_modified_time(path: str) -> float:
    """Returns when an object was last written, as Unix time in seconds."""
    with translate_errors(path):
        return float(fetch_blob(path).updated.timestamp())


def listdir(path: str) -> list[str]:
    """Returns the names in a folder, sorted; an absent folder is empty."""
    start = len(split_path(path)[1]) + 1 if split_path(path)[1] else 0
    with translate_errors(path):
        found = _list_below(path, delimiter="/")
        names = {blob.name[start:] for blob in found}
        names |= {prefix[start:].rstrip("/") for prefix in found.prefixes}
    return sorted(names - {""})


def glob(pattern: str) -> list[str]:
    """Returns the objects that fit a pattern, sorted; `**` stands for any folders."""
    wild = _WILD.search(pattern)
    folder = pattern[: wild.start()].rpartition("/")[0] if wild else pattern.rpartition("/")[0]
    fits = re.compile(_convert_to_regex(pattern))
    bucket = split_path(pattern)[0]
    with translate_errors(pattern):
        found = [f"gs://{bucket}/{blob.name}" for blob in _list_below(folder)]
    return sorted(path for path in found if fits.fullmatch(path) and not path.endswith("/"))


def _convert_to_regex(pattern: str) -> str:
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
    with translate_errors(path):
        list(_list_below(path, max_results=1))


def read_bytes(path: str) -> bytes:
    """Returns a whole object, its checksum compared."""
    with translate_errors(path):
        return bytes(blob_at(path).download_as_bytes(raw_download=True, retry=retry()))


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
    bucket, name = split_path(path)
    with translate_errors(path):
        found = client().bucket(bucket).get_blob(name, retry=retry())
    return int(found.generation) if found else 0


def replace(path: str, content: bytes, before: int) -> int:
    """Writes an object of which `before` is the generation, 0 if it must be new.

    Returns its new generation. Raises `FileExistsError` if others have written it since.
    """
    import google.api_core.exceptions as api

    with translate_errors(path):
        blob = blob_at(path)
        with contextlib.suppress(api.PreconditionFailed):
            blob.upload_from_string(content, if_generation_match=before, retry=retry())
            return int(blob.generation)
        with contextlib.suppress(api.NotFound):
            blob.reload(retry=retry())
            if blob.download_as_bytes(raw_download=True, retry=retry()) == content:
                return int(blob.generation)  # ours: only the answer was lost
    raise FileExistsError(path)


def remove_generation(path: str, last: int) -> None:
    """Removes an object of which `last` is the generation; another is left."""
    import google.api_core.exceptions as api

    with translate_errors(path), contextlib.suppress(api.NotFound, api.PreconditionFailed):
        blob_at(path).delete(if_generation_match=last, retry=retry())


def remove(path: str) -> None:
    """Removes an object and what is in a folder of that name; absent is fine."""
    import google.api_core.exceptions as api

    def delete(blob: Any) -> None:
        with contextlib.suppress(api.NotFound):
            blob.delete(retry=retry())

    with translate_errors(path), concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        own: Iterable[Any] = [blob_at(path)] if split_path(path)[1] else []
        # At the first error the others are still waited for, then it is raised.
        list(pool.map(delete, [*own, *_list_below(path)]))


def copy(source: str, target: str) -> None:
    """Copies an object within Cloud Storage; nothing is downloaded."""
    with translate_errors(source):
        blob, token = blob_at(target), None
        while True:
            token, _, _ = blob.rewrite(blob_at(source), token=token, retry=retry())
            if token is None:
                return


def upload(local: str, path: str) -> None:
    """Writes a local file to an object."""
    with translate_errors(path), open(local, "rb") as file:
        content, size = work.CountedFile(file), os.path.getsize(local)
        blob_at(path).upload_from_file(content, size=size, retry=retry())
