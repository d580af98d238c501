"""Files of an export that are as they were, and those that are not."""

from __future__ import annotations

import hashlib

import pytest

from pipeline import errors
from pipeline.runs import export_files


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "variables" / "variables.index").write_bytes(b"index")
    return tmp_path


def test_every_file_of_an_export_is_listed_by_path(folder):
    assert export_files.digests(str(folder)) == {
        "saved_model.pb": hashlib.sha256(b"graph").hexdigest(),
        "variables/variables.index": hashlib.sha256(b"index").hexdigest(),
    }


def _flip(folder):
    (folder / "variables" / "variables.index").write_bytes(b"indey")


def _remove(folder):
    (folder / "variables" / "variables.index").unlink()


def _add(folder):
    (folder / "variables" / "more").write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_flip, "'variables/variables.index' was altered after it was published"),
        (_remove, "'variables/variables.index' was missing"),
        (_add, "'variables/more' was added"),
    ],
)
def test_a_change_is_named(folder, change, message):
    wanted = export_files.digests(str(folder))
    export_files.verify(str(folder), wanted)
    change(folder)
    with pytest.raises(errors.DataError, match=message):
        export_files.verify(str(folder), wanted)
