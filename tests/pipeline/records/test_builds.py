"""Which build is current, which a run is pinned to, and which one it asks for."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.support.builds import publish

FIRST, SECOND = "a" * 12, "b" * 12


@pytest.fixture
def records(tmp_path) -> pathlib.Path:
    return tmp_path / "records" / "mnist"


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder(str(tmp_path / "runs" / "r"))


@pytest.fixture
def job() -> config.Config:
    return config_file.load("mnist")


def test_names():
    assert [builds.base_of(name) for name in (FIRST, f"{FIRST}-12")] == [FIRST, FIRST]
    for name in ("", "a", f"{FIRST}-0", f"{FIRST}-", f"{FIRST}/x", f"{FIRST}\n", "_tmp-1"):
        assert builds.base_of(name) is None
    assert [builds.number_of(name) for name in (FIRST, f"{FIRST}-12")] == [1, 12]


def test_the_current_build(records):
    assert builds.find_current(str(records)) == str(records), "nothing yet"
    publish(records / FIRST)
    builds.make_current(str(records), FIRST)
    assert builds.find_current(str(records)) == str(records / FIRST)
    assert builds.find_current(str(records / FIRST)) == str(records / FIRST)
    assert builds.size(builds.find_current(str(records))) == 20
    before = (records / "current.json").stat().st_mtime_ns
    builds.make_current(str(records), FIRST)
    assert (records / "current.json").stat().st_mtime_ns == before


def test_the_inputs_of_the_config_a_build_was_asked_for(records, tmp_path, job):
    publish(records / FIRST)
    builds.make_current(str(records), FIRST, job.data)
    builds.refuse_other_inputs(str(tmp_path), job, given="mnist")
    other = config_file.load("mnist", ["data.inputs.train.images=other.gz"])
    line = (
        rf"^config 'b/mnist.yaml': the current records called 'mnist', '.*/{FIRST}', are of "
        r"another config: its data.inputs.train.images is '.*train-images-.*', not '.*/other.gz'\. "
        r"Make its own with make preprocess CONFIG=b/mnist.yaml\. Another name: or STORAGE= keeps "
    )
    for look in (builds.refuse_other_inputs, builds.find_config_build):
        with pytest.raises(errors.UsageError, match=line):
            look(str(tmp_path), other, given="b/mnist.yaml")
    builds.make_current(str(records), FIRST, other.data)
    builds.refuse_other_inputs(str(tmp_path), other, given="b/mnist.yaml")
    builds.make_current(str(records), FIRST)  # as by an earlier version
    builds.refuse_other_inputs(str(tmp_path), job, given="mnist")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"build": "../x"}', '{"build": 1}', f'{{"build": "{FIRST}", "inputs": 1}}'],
)
def test_a_pointer_that_names_no_build_is_refused_and_replaced(records, text):
    records.mkdir(parents=True)
    (records / "current.json").write_text(text)
    with pytest.raises(
        errors.DataError, match=r"current.json': does not name a build. Run make pre"
    ):
        builds.find_current(str(records))
    builds.make_current(str(records), FIRST)
    assert builds.find_current_name(str(records)) == FIRST


def test_a_build_is_there_once_it_has_a_manifest(records):
    assert builds.list_published(str(records)) == []
    for name in (f"{FIRST}-10", f"{FIRST}-2", SECOND):
        publish(records / name)
    (records / FIRST).mkdir()
    assert builds.list_published(str(records)) == [f"{FIRST}-2", f"{FIRST}-10", SECOND]
    assert builds.size(str(records / FIRST)) == 0


def test_a_pin_remembers_the_build_before_until_it_is_settled(run):
    assert builds.read_pin(run) is None
    builds.forget_previous(run)
    builds.restore(run)
    assert builds.read_pin(run) is None
    builds.pin(run, "mnist", FIRST)
    assert builds.read_pin(run) == builds.Pin("mnist", FIRST)
    builds.pin(run, "mnist", SECOND)
    builds.pin(run, "mnist", f"{SECOND}-2")
    assert builds.read_pin(run) == builds.Pin("mnist", f"{SECOND}-2", before=FIRST)
    builds.restore(run)
    assert builds.read_pin(run) == builds.Pin("mnist", FIRST)
    builds.pin(run, "mnist", SECOND)
    builds.forget_previous(run)
    assert builds.read_pin(run) == builds.Pin("mnist", SECOND)
    builds.pin(run, "mnist", FIRST)
    builds.pin(run, "mnist", SECOND)
    assert builds.read_pin(run) == builds.Pin("mnist", SECOND), "as it was"


@pytest.mark.parametrize(
    "content",
    [{}, {"records": "m", "build": "x"}, {"records": "../m", "build": FIRST}, {"records": "m"}],
)
def test_a_pin_that_names_no_build_is_refused(run, content):
    os.makedirs(run.path)
    pathlib.Path(run.path, "records.json").write_text(json.dumps(content))
    with pytest.raises(errors.DataError, match=r"records.json': does not name a build; remove it"):
        builds.read_pin(run)


def test_a_run_finds_its_build_whatever_is_current(tmp_path, records, run):
    for name in (FIRST, SECOND):
        publish(records / name)
    builds.make_current(str(records), SECOND)
    assert builds.find_run_build(str(tmp_path), run, "mnist") == str(records / SECOND)
    builds.pin(run, "mnist", FIRST)
    assert builds.find_run_build(str(tmp_path), run, "other") == str(records / FIRST)
    (records / FIRST / "manifest.json").unlink()
    assert builds.find_run_build(str(tmp_path), run, "mnist") == str(records / FIRST), (
        "not any other"
    )
    publish(records / f"{FIRST}-2")
    assert builds.find_run_build(str(tmp_path), run, "mnist") == str(records / f"{FIRST}-2")


def test_a_run_of_an_earlier_version_finds_its_build(tmp_path, records, run):
    publish(records)
    made = manifest.read(str(records)).sha256
    publish(records / SECOND, config_file.load("mnist"))
    builds.make_current(str(records), SECOND)
    assert not builds.has_trained_on_unnamed(run, str(records))
    run.write("run.json", {"manifest": made})
    assert builds.find_run_build(str(tmp_path), run, "mnist") == str(records)
    run.write("run.json", {"manifest": "0"})
    assert builds.find_run_build(str(tmp_path), run, "mnist") == str(records / SECOND)
    builds.pin(run, "mnist", "")
    assert builds.find_run_build(str(tmp_path), run, "mnist") == str(records)


def test_the_folder_of_a_build_without_a_name(tmp_path, records):
    assert builds.find_unnamed(str(records)) is None
    publish(records)
    assert builds.find_unnamed(str(records)) is None, "its shards lie in no build"
    found = manifest.read(str(records))
    shard = found.splits["train"].shards[0].model_copy(update={"path": f"{FIRST}/t"})
    splits = {"train": manifest.Split(records=1, shards=(shard,))}
    manifest.write(str(records), found.model_copy(update={"splits": splits}))
    assert builds.find_unnamed(str(records)) is None, "it is gone"
    (records / FIRST).mkdir()
    assert builds.find_unnamed(str(records)) == FIRST


def wanted(tmp_path, job, run, *, moves=False) -> str:
    return builds.find_wanted(str(tmp_path), job, run, moves=moves)


def test_a_new_run_asks_for_a_build_with_its_settings(tmp_path, records, run, job):
    other = config_file.load("mnist", ["data.block_records=16"])
    assert wanted(tmp_path, job, run) == str(records)
    publish(records / SECOND, other)
    builds.make_current(str(records), SECOND)
    assert wanted(tmp_path, job, run) == str(records / SECOND), "the caller looks at its schema"
    publish(records / FIRST, job, made=1)
    publish(records / f"{FIRST}-2", job, made=3)
    publish(records / ("c" * 12), job, made=2)
    assert wanted(tmp_path, job, run) == str(records / f"{FIRST}-2")
    assert wanted(tmp_path, other, run) == str(records / SECOND)


def test_a_run_stays_with_its_build_unless_it_may_move(tmp_path, records, run, job):
    for name in (FIRST, SECOND):
        publish(records / name, job)
    builds.make_current(str(records), SECOND)
    builds.pin_to(str(tmp_path), run, "mnist", folder=str(records / FIRST))
    assert builds.read_pin(run) == builds.Pin("mnist", FIRST)
    assert wanted(tmp_path, job, run) == str(records / FIRST)
    assert wanted(tmp_path, job, run, moves=True) == str(records / SECOND)


def test_a_run_whose_records_have_another_name_now(tmp_path, records, run, job):
    publish(records / FIRST, job)
    builds.pin(run, "mnist", FIRST)
    renamed = job.model_copy(update={"name": "other"})
    other = publish(tmp_path / "records" / "other" / SECOND, renamed)
    builds.make_current(str(tmp_path / "records" / "other"), SECOND)
    assert wanted(tmp_path, renamed, run) == other


def test_pinning_to_records_of_an_earlier_version(tmp_path, records, run):
    builds.pin_to(
        str(tmp_path), run, "mnist", folder=run_folder.records_folder(str(tmp_path), "mnist")
    )
    assert builds.read_pin(run) == builds.Pin("mnist", "")


def test_on_gs_the_same(cloud, job):
    records = cloud.path("records/mnist")
    run = RunFolder(cloud.path("runs/r"))
    assert builds.find_current(records) == records
    cloud.put(f"records/mnist/{FIRST}/manifest.json", b"{}")
    builds.make_current(records, FIRST)
    assert builds.find_current(records) == f"{records}/{FIRST}"
    assert builds.list_published(records) == [FIRST]
    builds.pin(run, "mnist", FIRST)
    assert builds.find_run_build(cloud.root, run, "mnist") == f"{records}/{FIRST}"
