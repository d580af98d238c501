"""Old builds: listed with the runs that name them, and removed if none does."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from pipeline import errors
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from preprocessing.build import cleaning
from preprocessing.shards import record_folders
from tests.support.builds import publish

NEW, OLD, NAMED = "a" * 12, "b" * 12, "c" * 12


@pytest.fixture
def records(tmp_path) -> pathlib.Path:
    """Three builds, of which one is current and one is named by the run `r`."""
    folder = tmp_path / "records" / "mnist"
    for build, made in ((OLD, 1000), (NAMED, 2000), (NEW, 3000)):
        publish(folder / build, made=made)
    builds.make_current(str(folder), NEW)
    builds.pin(run_of(tmp_path), "mnist", NAMED)
    return folder


def run_of(root, name="r") -> RunFolder:
    return RunFolder(str(root / "runs" / name))


def clean(root, **options) -> dict[str, str]:
    return {build.name: why for build, why in cleaning.clean(str(root), "mnist", **options)}


def test_what_no_run_names_is_removed(tmp_path, records):
    (tmp_path / "records" / ".DS_Store").touch()
    (tmp_path / "runs" / "notes.txt").touch()
    assert cleaning.list_names(str(tmp_path)) == ["mnist"]
    assert clean(tmp_path) == {NEW: "current", NAMED: "named by r", OLD: ""}
    assert builds.list_published(str(records)) == [NEW, NAMED]


def test_what_a_run_names_is_removed_by_force(tmp_path, records):
    assert clean(tmp_path, force=True) == {NEW: "current", NAMED: "", OLD: ""}
    assert builds.list_published(str(records)) == [NEW]


def test_what_a_run_is_training_on_stays_even_then(tmp_path, records):
    now = time.time()
    status = Status("chief-0", os.getpid(), os.uname().nodename, "training", now)
    run_folder.write_status(run_of(tmp_path), status)
    assert clean(tmp_path, force=True) == {NEW: "current", NAMED: "in use by r", OLD: ""}


def test_both_builds_of_a_run_that_is_moving_are_named(tmp_path, records):
    builds.pin(run_of(tmp_path), "mnist", OLD)
    builds.pin(run_of(tmp_path, "other"), "mnist", OLD)
    found = {build.name: build for build in cleaning.find(str(tmp_path), "mnist")}
    assert found[NAMED].runs == ("r",) and found[OLD].runs == ("other", "r")
    assert clean(tmp_path) == {NEW: "current", NAMED: "named by r", OLD: "named by other, r"}


def test_a_run_on_records_of_another_name_is_no_reason(tmp_path, records):
    run_of(tmp_path).write("records.json", {"records": "flights", "build": NAMED})
    assert clean(tmp_path) == {NEW: "current", NAMED: "", OLD: ""}


def test_a_pin_that_cannot_be_read_removes_nothing(tmp_path, records):
    run_of(tmp_path).write("records.json", {"records": "mnist"})
    with pytest.raises(errors.DataError, match="does not name a build"):
        clean(tmp_path)
    assert len(builds.list_published(str(records))) == 3


def test_what_is_being_made_stays(tmp_path, records):
    made = record_folders.prepare(str(records), "d" * 12)
    with record_folders.hold_lock(str(records), "d" * 12):
        assert clean(tmp_path)["d" * 12] == "being made"
        assert os.path.isdir(made.build) and os.path.isdir(made.temporary)
    assert "d" * 12 not in clean(tmp_path)
    assert not os.path.exists(made.build) and not os.path.exists(made.temporary)


def test_a_run_that_names_a_build_just_now_keeps_it(tmp_path, records, monkeypatch):
    """Between the list and the removal."""
    find, calls = cleaning.find, []

    def late(*arguments):
        found = find(*arguments)
        if not calls:
            builds.pin(run_of(tmp_path, "late"), "mnist", OLD)
        calls.append(found)
        return found

    monkeypatch.setattr(cleaning, "find", late)
    before = (records / OLD / "manifest.json").read_bytes()
    assert clean(tmp_path)[OLD] == "named by late"
    assert (records / OLD / "manifest.json").read_bytes() == before


def test_a_build_of_an_earlier_version(tmp_path, records):
    found = cleaning.find(str(tmp_path), "mnist")
    assert [build.name for build in found] == [NEW, NAMED, OLD]
    _move_up(records, OLD)
    run = run_of(tmp_path, "before")
    run.write("run.json", {"manifest": _sha256(records)})
    assert clean(tmp_path) == {NEW: "current", NAMED: "named by r", OLD: "named by before"}
    assert clean(tmp_path, force=True)[OLD] == ""
    assert not (records / "manifest.json").exists() and builds.list_published(str(records)) == [NEW]


def _move_up(records, build):
    """Moves a manifest to where earlier versions had it."""
    text = (records / build / "manifest.json").read_text()
    (records / build / "manifest.json").unlink()
    (records / "manifest.json").write_text(text.replace('"path": "t"', f'"path": "{build}/t"'))


def _sha256(records):
    return manifest.read(str(records)).sha256


def test_dead_letters_of_a_failed_run_are_listed_and_removed(tmp_path, records):
    letters = records / ("d" * 12) / "dead_letter"
    letters.mkdir(parents=True)
    (letters / "train.jsonl").touch()
    unfinished = cleaning.find(str(tmp_path), "mnist")[-1]
    assert unfinished.name == "d" * 12 and unfinished.made is None
    found = list(cleaning.clean(str(tmp_path), "mnist"))
    assert not letters.exists()
    assert any(
        "unfinished" in line and line.endswith("removed") for line in cleaning.format_lines(found)
    )


def test_on_gs(cloud):
    for build in (NEW, OLD):
        cloud.put(f"records/mnist/{build}/manifest.json", b"{}")
        cloud.put(f"records/mnist/{build}/train", b"x")
    builds.make_current(cloud.path("records/mnist"), NEW)
    found = cleaning.clean(cloud.root, "mnist")
    assert {build.name: why for build, why in found} == {NEW: "current", OLD: ""}
    assert [name for name in cloud.names() if OLD in name] == []
    assert f"records/mnist/{NEW}/train" in cloud.names()
