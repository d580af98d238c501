"""Files, wherever they are: a local folder, NFS, or gs://, through `tf.io.gfile`.

Local paths use the standard library, so that commands which touch only local files need not
import TensorFlow (about two seconds warm, six cold). Writes that others wait for are atomic:
they appear whole or not at all.
"""

from __future__ import annotations

import contextlib
import glob as globbing
import os
import re
import secrets
import shutil
from typing import Any

from pipeline import config, errors

_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://")


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


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def absolute(path: str) -> str:
    """Returns `path` so that it means the same in every process: TensorFlow's servers change
    what a relative path starts at (traps A29)."""
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


def child(root: str, name: str) -> str:
    """Returns the folder `name` below `root`, refusing names that could leave it."""
    if not re.fullmatch(config.NAME_PATTERN, name):
        raise errors.UsageError(
            f"name {name!r}: must be 1 to 63 of a-z 0-9 . _ - and start with a letter or digit"
        )
    path = join(root, name)
    if not is_remote(root):
        real, real_root = os.path.realpath(path), os.path.realpath(root)
        if os.path.commonpath([real, real_root]) != real_root:
            raise errors.UsageError(f"name {name!r}: leads out of {root!r} to {real!r}")
    return path


def exists(path: str) -> bool:
    """True if there is a file or folder at `path`."""
    return bool(_gfile().exists(path)) if is_remote(path) else os.path.exists(path)


def size(path: str) -> int:
    """Returns the length of a file in bytes; raises `FileNotFoundError`."""
    if not is_remote(path):
        return os.stat(path).st_size
    if not exists(path):
        raise FileNotFoundError(path)
    return int(_gfile().stat(path).length)


def modified(path: str) -> float:
    """Returns when a file was last written, as Unix time in seconds."""
    if is_remote(path):
        return float(_gfile().stat(path).mtime_nsec) / 1e9
    return os.stat(path).st_mtime


def listdir(path: str) -> list[str]:
    """Returns the names in a folder, sorted; an absent folder is empty."""
    if is_remote(path):
        return sorted(n.rstrip("/") for n in _gfile().listdir(path)) if exists(path) else []
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def glob(pattern: str) -> list[str]:
    """Returns the files that fit a pattern, sorted; `**` stands for any folders, locally."""
    if is_remote(pattern):
        return sorted(p for p in _gfile().glob(pattern) if not _gfile().isdir(p))
    return sorted(p for p in globbing.glob(pattern, recursive=True) if os.path.isfile(p))


def makedirs(path: str) -> None:
    """Creates a folder and its parents. Raises `UsageError` naming what is in the way."""
    try:
        _gfile().makedirs(path) if is_remote(path) else os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise errors.from_os_error(error, f"cannot create folder {path!r}") from None


def open_file(path: str, mode: str = "rb") -> Any:
    """Opens a file for `rb`, `r`, `wb` or `w`."""
    return _gfile().GFile(path, mode) if is_remote(path) else open(path, mode)


def read_text(path: str) -> str:
    """Returns a whole file as text. Raises `FileNotFoundError` or `DataError` for non-text."""
    if is_remote(path) and not exists(path):
        raise FileNotFoundError(path)
    with open_file(path, "rb") as file:
        content = file.read()
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError:
        raise errors.DataError(f"{path!r}: not UTF-8 text") from None


def write_text(path: str, text: str) -> None:
    """Writes a file that readers see whole or not at all.

    On gs:// an object is atomic by itself. On a disk the text goes to a temporary file beside
    the target first, is forced to the disk, and is then renamed over it.
    """
    if is_remote(path):
        with _gfile().GFile(path, "w") as file:
            file.write(text)
        return
    temporary = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise errors.from_os_error(error, f"cannot write {path!r}") from None


def is_full(path: str) -> bool:
    """True if less than a megabyte is left on the disk of a folder."""
    return not is_remote(path) and shutil.disk_usage(path).free < 1 << 20


def remove(path: str) -> None:
    """Removes a file or a whole folder; absent is fine."""
    if is_remote(path):
        if _gfile().isdir(path):
            _gfile().rmtree(path)
        elif exists(path):
            _gfile().remove(path)
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=False)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
