"""The command, as a process of its own: the list, and what it removes when."""

from __future__ import annotations

import re

from pipeline.records import builds
from tests.support import commands
from tests.support.builds import publish

NEW, OLD = "a" * 12, "b" * 12


def _run(root, *flags: str) -> list[str]:
    done = commands.run("preprocessing.clean_records", f"--storage={root}", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_it_lists_and_removes(tmp_path):
    for name in ("mnist", "flights"):
        folder = tmp_path / "records" / name
        publish(folder / OLD, made=1000)
        publish(folder / NEW, made=2000)
        builds.make_current(str(folder), NEW)
    listed = _run(tmp_path, "--dry_run", "--config=mnist")
    assert listed[0] == f"{tmp_path}/records/mnist" and len(listed) == 3
    assert re.fullmatch(rf"  {NEW} +\d+ bytes  1970-.*  current", listed[1])
    assert re.fullmatch(rf"  {OLD} +\d+ bytes  1970-.*  would be removed", listed[2])
    size = re.search(r"[\d.]+ (bytes|kB)", listed[2])[0]
    assert _run(tmp_path, "--config=mnist")[-1] == f"{size} freed"
    assert builds.list_published(str(tmp_path / "records/mnist")) == [NEW]
    assert builds.list_published(str(tmp_path / "records/flights")) == [NEW, OLD]
    removed = _run(tmp_path)
    assert [line.split()[-1] for line in removed[1:3]] == ["current", "removed"]
    assert builds.list_published(str(tmp_path / "records/flights")) == [NEW]


def test_without_records_there_is_nothing_to_do(tmp_path):
    assert _run(tmp_path) == ["0 bytes freed"]
