"""Files, wherever they are: a local folder, NFS, or gs:// through `pipeline.storage.gcs`.

Neither imports TensorFlow, which takes two seconds warm and six cold. Writes that others wait for
are atomic: they appear whole or not at all.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import errno
import glob as globbing
import os
import re
import secrets
import shutil
import stat
from collections.abc import Sequence
from typing import Any

from pipeline import errors
from pipeline.console import work
from pipeline.storage import gcs, gcs_files, patience

# Names of what has a folder of its own, such as a run.
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://")
_WILD = re.compile(r"[*?\[]")
_AT_ONCE = 32  # requests under way to a file server, each of which may take milliseconds
_CHUNK = 8 << 20  # bytes


def is_remote(path: str) -> bool:
    """Tells gs:// from local paths; any other scheme is refused."""
    match = _SCHEME.match(path)
    if match is None:
        return False
    if match[1] != "gs":
        raise errors.UsageError(
            f"path {path!r}: {match[1]}:// is not supported; use a folder or gs://"
        )
    return True


def make_absolute(path: str) -> str:
    """Returns `path` so that it means the same in every process: parameter servers
    write files too (docs/tensorflow-pitfalls.md#parts-written-by-servers)."""
    return path if is_remote(path) else os.path.abspath(os.path.expanduser(path))


def join(folder: str, *names: str) -> str:
    """Joins path parts; an absolute later part wins, as in `os.path.join`."""
    for name in names:
        if is_remote(name) or os.path.isabs(name) or not folder:
            folder = name
        else:
            folder = f"{folder.rstrip('/')}/{name}"
    return folder if is_remote(folder) else os.path.normpath(folder)


def parent(path: str) -> str:
    """Returns the folder `path` is in."""
    return path.rstrip("/").rpartition("/")[0] or "."


def child(root: str, name: str, *, what: str = "name") -> str:
    """Returns the folder `name` below `root`, refusing names that could leave it; `what` is what
    the name is called then."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise errors.UsageError(
            f"{what} {name!r}: must be 1 to 63 of a-z 0-9 . _ - and start with a letter or digit"
        )
    path = join(root, name)
    if not is_remote(root):
        real, real_root = os.path.realpath(path), os.path.realpath(root)
        if os.path.commonpath([real, real_root]) != real_root:
            raise errors.UsageError(f"{what} {name!r}: leads out of {root!r} to {real!r}")
    return path


def exists(path: str) -> bool:
    """True if there is a file or folder at `path`."""
    return gcs.exists(path) if is_remote(path) else os.path.exists(path)


def size(path: str) -> int:
    """Returns the length of a file in bytes; raises `FileNotFoundError`."""
    return gcs.size(path) if is_remote(path) else os.stat(path).st_size


@dataclasses.dataclass(frozen=True)
class Details:
    """What is known of a file without reading it: length in bytes, a `version` that changes with
    its content, and its CRC-32C (hexadecimal) where the storage keeps one."""

    size: int
    version: str
    crc32c: str | None = None


def describe(paths: Sequence[str]) -> list[Details | None]:
    """Returns what is known of many files, without reading them; `None` for those that are not
    there. They may lie on several storages. Raises `RetryableError` if one cannot say."""
    remote = [path for path in paths if is_remote(path)]
    local = [path for path in paths if not is_remote(path)]
    of_remote = gcs.describe(remote) if remote else ()
    found = {path: one and Details(*one) for path, one in zip(remote, of_remote, strict=True)}
    if not local:
        return [found[path] for path in paths]
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        found.update(zip(local, pool.map(_read_details, local), strict=True))
    return [found[path] for path in paths]


def _read_details(path: str) -> Details | None:
    try:
        found = patience.read_patiently(path, lambda: os.stat(path))
    except FileNotFoundError:
        return None
    # A change of the content cannot leave the time of the last change to the file as it was.
    return Details(found.st_size, f"{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}")


def get_modified_time(path: str) -> float:
    """Returns when a file was last written, as Unix time in seconds."""
    return gcs.get_modified_time(path) if is_remote(path) else os.stat(path).st_mtime


def listdir(path: str) -> list[str]:
    """Returns the names in a folder, sorted; an absent folder is empty."""
    if is_remote(path):
        return gcs.listdir(path)
    try:
        return sorted(os.listdir(path)) if os.path.isdir(path) else []
    except FileNotFoundError:  # removed in between
        return []


def glob(pattern: str) -> list[str]:
    """Returns the files that fit a pattern, sorted; `**` stands for any folders. Broken
    links and named pipes are included: reading them fails, and their rows are not left out."""
    if is_remote(pattern):
        return gcs.glob(pattern)
    above, below = split_at_wildcard(pattern)
    found = globbing.glob(globbing.escape(above) + below, recursive=True)
    return sorted(path for path in found if os.path.lexists(path) and not os.path.isdir(path))


def split_at_wildcard(pattern: str) -> tuple[str, str]:
    """Cuts a pattern in two, before the folder or file that its first wildcard is in.

    Folders that are there under that very name, such as `[old]`, have none. Of what has no
    wildcards the second part is the name.
    """
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and _is_plain("/".join(parts[: plain + 1]), parts[plain]):
        plain += 1
    above = "".join(f"{part}/" for part in parts[:plain])
    return above, pattern[len(above) :]


def has_wildcard(pattern: str) -> bool:
    """True for a pattern; a path that exists under that very name is not one."""
    return not _is_plain(pattern, split_at_wildcard(pattern)[1])


def _is_plain(path: str, end: str) -> bool:
    """Tells if the `end` of a path has no wildcards, or is there in spite of them."""
    return not _WILD.search(end) or (not is_remote(path) and os.path.exists(path))


def makedirs(path: str) -> None:
    """Creates a folder and its parents. Raises `UsageError` naming what is in the way."""
    try:
        gcs.makedirs(path) if is_remote(path) else os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot create folder {path!r}") from None


def open_file(path: str, mode: str = "rb") -> Any:
    """Opens a file for `rb` or `wb`. Raises `OSError` for what cannot be read from any offset,
    such as a named pipe: to open one waits until another process writes to it."""
    if is_remote(path):
        return gcs_files.open_file(path, mode)
    if mode == "rb":
        kind = os.stat(path).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            problem = "it is not a regular file; write its content to one"
            raise OSError(errno.EINVAL, problem, path)
    return open(path, mode)


def read_text(path: str) -> str:
    """Returns a whole file as text. Raises `OSError` as `open_file` does, `DataError` for what is
    not text."""
    if is_remote(path):
        content = gcs.read_bytes(path)
    else:
        with open_file(path) as file:
            content = file.read()
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError:
        raise errors.DataError(f"{path!r}: not UTF-8 text") from None


def write_text(path: str, text: str, *, new: bool = False, parents: bool = False) -> None:
    """Writes a file that readers see whole or not at all.

    On gs:// it is one object, written on the condition that no other writes it meanwhile. On a disk
    the text goes to a temporary file next to the target first, is forced to the disk, and is
    then renamed over it. Makes the folder it is to be in if `parents`. Raises `FileExistsError` if
    it must be `new` and is not.
    """
    if is_remote(path):
        gcs.write_bytes(path, text.encode(), new=new)
        return
    if new and os.path.exists(path):
        raise FileExistsError(path)
    temporary = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        # Another process may have made the folder since.
        missing = isinstance(error, FileNotFoundError) or not os.path.isdir(parent(path))
        if parents and missing:
            makedirs(parent(path))
            write_text(path, text, new=new)
            return
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise errors.translate_os_error(error, f"cannot write {path!r}") from None


def sweep(folder: str, pid: int) -> None:
    """Removes what a process of this machine that was killed had begun to write below `folder`."""
    if not is_remote(folder):
        for path in globbing.glob(f"{globbing.escape(folder)}/**/*.{pid}-*.tmp", recursive=True):
            remove(path)


def is_full(path: str) -> bool:
    """True if less than a megabyte is left on the disk of a folder."""
    return not is_remote(path) and shutil.disk_usage(path).free < 1 << 20


def remove(path: str) -> None:
    """Removes a file or a whole folder; absent is fine."""
    if is_remote(path):
        gcs.remove(path)
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=False)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def copy(source: str, target: str) -> None:
    """Copies a file to a folder that is there."""
    if is_remote(source) and is_remote(target):
        gcs.copy(source, target)
    elif is_remote(target):
        gcs.upload(source, target)
    else:
        with open_file(source) as content, open(target, "wb") as file:
            while chunk := content.read(_CHUNK):
                file.write(chunk)
                work.advance(len(chunk))


def replace_folder(local: str, target: str, last: str) -> None:
    """Puts a local folder in the place of the folder `target`, as `publish_folder` does.

    On a disk readers see the old folder or the new one; where the file system cannot exchange two
    folders, none for the moment between two renames. On gs:// they see none during the upload.
    """
    if is_remote(target):
        remove(join(target, last))
        remove(target)
        publish_folder(local, target, last)
    elif exchange(local, target):
        remove(local)
    else:
        aside = f"{local}.old"
        os.rename(target, aside)
        os.rename(local, target)
        remove(aside)


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def exchange(one: str, other: str) -> bool:
    """Exchanges two folders of one file system in one step (Linux renameat2); false where the
    system or the file system, such as NFS, cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def move(source: str, target: str) -> None:
    """Moves a file to a folder of the same file system that is there."""
    if is_remote(source):
        gcs.copy(source, target)
        gcs.remove(source)
        return
    try:
        os.rename(source, target)
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot move {source!r} to {target!r}") from None


def publish_folder(local: str, target: str, last: str) -> None:
    """Moves a local folder to `target`, where it is not; readers look for the file `last` in it.

    On a disk it is renamed as a whole, and must be of the same file system. Nothing of the kind
    exists on gs://: there its files are uploaded, and `last` after all the others.
    """
    if not is_remote(target):
        makedirs(parent(target))
        os.rename(local, target)
        return
    files = [
        os.path.relpath(os.path.join(folder, name), local)
        for folder, _, names in os.walk(local)
        for name in names
    ]
    for file in sorted(files, key=lambda file: (file == last, file)):
        gcs.upload(os.path.join(local, file), join(target, file))
    shutil.rmtree(local)
