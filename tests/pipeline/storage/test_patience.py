"""Reads that fail for a while."""

from __future__ import annotations

import errno
import os
import types

import pytest

from pipeline import errors
from pipeline.storage import patience


def _failing(times, number):
    attempts = []

    def read():
        attempts.append(number)
        if len(attempts) <= times:
            raise OSError(number, os.strerror(number), "f")
        return "content"

    return read, attempts


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE])
def test_a_read_is_tried_until_it_succeeds_or_has_failed_for_long(monkeypatch, number):
    now = [0.0]
    clock = types.SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds)
    )
    monkeypatch.setattr(patience, "time", clock)
    read, attempts = _failing(59, number)
    assert patience.read_patiently("f", read) == "content"
    read, attempts = _failing(99, number)
    with pytest.raises(
        errors.RetryableError, match=rf"^'f': cannot be read \({os.strerror(number)}"
    ):
        patience.read_patiently("f", read)
    assert len(attempts) == 61


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EISDIR, errno.ENOTDIR])
def test_a_file_that_does_not_exist_is_no_failure(number):
    read, attempts = _failing(1, number)
    with pytest.raises(FileNotFoundError, match="f"):
        patience.read_patiently("f", read)
    assert len(attempts) == 1
