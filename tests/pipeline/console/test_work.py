"""Work that is counted from within."""

from __future__ import annotations

import pytest

from pipeline import storage
from pipeline.console import work
from pipeline.runs import export_files


def test_only_what_is_done_in_the_body_counts():
    amounts: list[int] = []
    work.advance(1)
    with work.count_work(amounts.append):
        work.advance(2)
        with work.count_work(lambda amount: None):
            work.advance(3)
        work.advance(4)
    work.advance(5)
    assert amounts == [2, 4]


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: export_files.digests(str(folder)),
        lambda folder: storage.copy(str(folder / "data"), str(folder.parent / "copy")),
    ],
)
def test_bytes_of_large_files_are_counted_in_pieces(tmp_path, act):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data").write_bytes(bytes(20 << 20))
    amounts: list[int] = []
    with work.count_work(amounts.append):
        act(folder)
    assert amounts == [8 << 20, 8 << 20, 4 << 20]


def test_bytes_of_uploads_are_counted(cloud, tmp_path):
    (tmp_path / "data").write_bytes(b"x" * 2_000_000)
    amounts: list[int] = []
    with work.count_work(amounts.append):
        storage.copy(str(tmp_path / "data"), cloud.path("copy"))
    assert sum(amounts) >= 2_000_000
    assert storage.size(cloud.path("copy")) == 2_000_000
