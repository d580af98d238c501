"""Reads that fail and prove nothing of the file: each is a context manager over a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import resource

import pytest

from pipeline import storage


@contextlib.contextmanager
def deny_reads(folder):
    """A real EACCES: other users' files, read by one who is not root."""
    if os.geteuid():
        pytest.skip("needs root")
    for path in pathlib.Path(folder).iterdir():
        path.chmod(0)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def exhaust_descriptors(folder):
    """A real EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class _Broken:
    def __init__(self, file, number):
        self._file, self._number = file, number

    def read(self, size):
        raise OSError(self._number, os.strerror(self._number))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


def fail_reads(number):
    """Reads that fail as those of a sick disk or an NFS server do."""

    @contextlib.contextmanager
    def context(folder):
        opened = storage.open_file
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage, "open_file", lambda path: _Broken(opened(path), number))
            patch.setattr(storage, "read_text", lambda path: _Broken(None, number).read(1))
            yield

    return context


faults = pytest.mark.parametrize(
    "fault",
    [deny_reads, exhaust_descriptors, fail_reads(errno.EIO), fail_reads(errno.ESTALE)],
    ids=["EACCES", "EMFILE", "EIO", "ESTALE"],
)
