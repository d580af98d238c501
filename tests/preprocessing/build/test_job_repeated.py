"""What a run makes of the records that runs before it made or left."""

from __future__ import annotations

import os
import pathlib

import pytest

from pipeline import errors
from pipeline.console import figures
from pipeline.records import builds, manifest, shard_check
from pipeline.runs import run_folder
from preprocessing.build import attempt, fingerprint, finished, job
from preprocessing.shards import record_folders
from preprocessing.sources.idx import IdxSource
from tests.preprocessing import idx_files, table_runs, tables
from tests.preprocessing.build import runs


def test_a_second_run_does_nothing_and_needs_no_beam(tiny, root, monkeypatch):
    first, _ = runs.run(tiny, root)
    records = runs.records(root, tiny)
    before = {p: p.stat().st_mtime_ns for p in records.rglob("[!.]*") if p.is_file()}
    monkeypatch.setattr(attempt, "import_beam", lambda **_: pytest.fail("imported Beam"))
    again, said = runs.run(tiny, root)
    assert again == first
    assert "up to date" in said and "nothing to do" in said
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())


@pytest.mark.parametrize("damage", ["remove", "shorten", "manifest"])
def test_damaged_records_are_made_again(tiny, root, damage):
    made, _ = runs.run(tiny, root)
    before, whole = runs.folder(root, tiny).name, table_runs.files(runs.folder(root, tiny))
    shard = runs.folder(root, tiny) / made.splits["train"].shards[1].path
    if damage == "remove":
        shard.unlink()
    elif damage == "shorten":
        os.truncate(shard, 10)
    else:
        (runs.folder(root, tiny) / "manifest.json").write_text("{}")
    left = table_runs.files(runs.folder(root, tiny))
    _, said = runs.run(tiny, root)
    assert table_runs.files(runs.folder(root, tiny)) == whole
    assert table_runs.files(runs.records(root, tiny) / before) == left, "a run may be reading it"
    assert ("; making the records again" in said) is (damage != "manifest")
    assert "1 other build of these records takes " in said


def test_another_config_makes_another_build_and_the_first_is_found_again(tiny, root, monkeypatch):
    first, _ = runs.run(tiny, root)
    kept, whole = runs.folder(root, tiny), table_runs.files(runs.folder(root, tiny))
    second, said = runs.run(idx_files.make_config(dict(tiny.data.inputs), seed=5), root)
    assert first.sha256 != second.sha256
    assert runs.folder(root, tiny) != kept and table_runs.files(kept) == whole
    size = figures.size(builds.size(str(kept)))
    assert f"1 other build of these records takes {size}; make clean-records lists them" in said
    monkeypatch.setattr(attempt, "import_beam", lambda **_: pytest.fail("imported Beam"))
    again, said = runs.run(tiny, root)
    assert again == first and f"{kept}: up to date" in said
    assert runs.folder(root, tiny) == kept, "what was asked for last is current"


def test_other_bytes_of_the_same_length_make_another_build(tiny, root):
    runs.run(tiny, root)
    kept, whole = runs.folder(root, tiny), table_runs.files(runs.folder(root, tiny))
    raw = pathlib.Path(tiny.data.inputs["train"]["labels"])
    raw.write_bytes(raw.read_bytes()[:-1] + b"\x05")
    runs.run(tiny, root)
    assert runs.folder(root, tiny).name == f"{kept.name}-2" and table_runs.files(kept) == whole


def test_the_build_is_pinned_for_a_run(tiny, root):
    run = run_folder.RunFolder(str(root / "runs" / "a"))
    other = idx_files.make_config(dict(tiny.data.inputs), seed=5)
    runs.run(tiny, root, for_run=run)
    first = runs.folder(root, tiny).name
    assert builds.read_pin(run) == builds.Pin(tiny.name, first)
    runs.run(other, root)
    assert builds.read_pin(run) == builds.Pin(tiny.name, first)
    assert builds.find_run_build(str(root), run, tiny.name) == str(runs.records(root, tiny) / first)
    runs.run(other, root, for_run=run)
    second = runs.folder(root, tiny).name
    assert builds.read_pin(run) == builds.Pin(tiny.name, second, before=first)


def _set_budget(job_config, budget):
    data = job_config.data.model_copy(update={"error_budget": budget})
    return job_config.model_copy(update={"data": data})


@pytest.mark.parametrize("budget", [0, 2, 0.01])
def test_a_smaller_budget_fails_and_leaves_the_build(tmp_path, root, budget):
    """It is no part of a build, which is up to date with any."""
    rows = [*tables.rows(50), "x,n,1,1", "y,n,1,1", "50,n,999,1"]
    (tmp_path / "in.csv").write_text(tables.text(*rows))
    table = tables.make_config(tmp_path / "in.csv", error_budget=5)
    runs.run(table, root)
    run = run_folder.RunFolder(str(root / "runs" / "a"))
    whole = table_runs.files(runs.records(root, table))
    allowed = int(budget)
    message = rf"^3 of 53 rows are bad, data.error_budget {budget} allows {allowed}: 2 x id type; "
    with pytest.raises(errors.DataError, match=message) as info:
        runs.run(_set_budget(table, budget), root, for_run=run)
    assert info.value.exit_code == 65
    assert builds.read_pin(run) is None
    assert table_runs.files(runs.records(root, table)) == whole
    assert "up to date" in runs.run(_set_budget(table, 0.06), root)[1]
    (runs.folder(root, table) / "dead_letter" / "all.tally.json").unlink()
    said = runs.run(_set_budget(table, budget), root)[1]
    assert "up to date" in said, "an earlier version has kept no count"


def test_what_killed_runs_left_is_removed(tiny, root):
    folder = runs.records(root, tiny)
    for name in ("_tmp-0123", "_tmp-0123456789ab-77", "0123456789ab"):
        (folder / name).mkdir(parents=True)
        (folder / name / "train-00000-of-00001.tfrecord").touch()
    runs.run(tiny, root)
    names = {path.name for path in folder.glob("[!.]*")}
    assert names == {"current.json", runs.folder(root, tiny).name}


def test_after_a_kill_it_is_reported_that_a_run_starts_over(tiny, root):
    base = fingerprint.compute_base(tiny.data, IdxSource(tiny.data).files())
    killed = record_folders.prepare(str(runs.records(root, tiny)), base)
    pathlib.Path(killed.temporary, "train-000000-0000.rows17.arrow").touch()
    message = "an unfinished run had read 17 rows of these records; starting over"
    assert message in runs.run(tiny, root)[1]
    assert not os.path.exists(killed.temporary)
    assert message not in runs.run(tiny, root, force=True)[1]


def test_what_another_process_is_making_is_left_alone(tiny, root):
    folder = runs.records(root, tiny)
    layout_folders = record_folders.prepare(str(folder), "0123456789ab")
    with record_folders.hold_lock(str(folder), "0123456789ab"):
        runs.run(tiny, root)
        assert os.path.isdir(layout_folders.build) and os.path.isdir(layout_folders.temporary)
    runs.run(tiny, root)
    assert not os.path.exists(layout_folders.build) and not os.path.exists(layout_folders.temporary)


def test_inputs_that_cannot_be_hashed_are_made_again_and_kept_once(tiny, root, monkeypatch):
    first, _ = runs.run(tiny, root)
    whole = table_runs.files(runs.records(root, tiny))
    monkeypatch.setattr(finished, "find_up_to_date", lambda *_, **__: None)
    again, said = runs.run(tiny, root)
    assert again == first and "80 records in " in said
    assert table_runs.files(runs.records(root, tiny)) == whole


def test_records_of_an_earlier_version_are_used_again(tiny, root, monkeypatch):
    """They have one manifest, next to the folder of their shards."""
    made, _ = runs.run(tiny, root)
    folder, build = runs.records(root, tiny), runs.folder(root, tiny)
    whole = table_runs.files(build)
    _as_earlier_version(folder, build.name)
    assert manifest.read(builds.find_current(str(folder))).splits["train"].records > 0
    monkeypatch.setattr(attempt, "import_beam", lambda **_: pytest.fail("imported Beam"))
    again, said = runs.run(tiny, root)
    assert "up to date" in said and runs.folder(root, tiny) == build
    assert again == made.model_copy(update={"settings": None})
    assert {name: content for name, content in table_runs.files(build).items() if name in whole} | {
        "manifest.json": whole["manifest.json"]
    } == whole


def _as_earlier_version(folder: pathlib.Path, build: str) -> None:
    """Moves a build to where versions before builds had it."""
    found = manifest.read(str(folder / build))
    splits = {
        name: split.model_copy(
            update={
                "shards": tuple(
                    shard.model_copy(update={"path": f"{build}/{shard.path}"})
                    for shard in split.shards
                )
            }
        )
        for name, split in found.splits.items()
    }
    (folder / build / "manifest.json").unlink()
    (folder / "current.json").unlink()
    manifest.write(str(folder), found.model_copy(update={"splits": splits, "settings": None}))


def test_other_settings_leave_records_of_an_earlier_version(tiny, root):
    runs.run(tiny, root)
    folder, build = runs.records(root, tiny), runs.folder(root, tiny)
    shards = {name: data for name, data in table_runs.files(build).items() if name.startswith("t")}
    _as_earlier_version(folder, build.name)
    old = (folder / "manifest.json").read_bytes()
    runs.run(idx_files.make_config(dict(tiny.data.inputs), seed=5), root)
    assert runs.folder(root, tiny) != build and shards.items() <= table_runs.files(build).items()
    assert (folder / "manifest.json").read_bytes() == old, "runs were started with it"
    shard_check.verify(str(build), manifest.read(str(build)), contents=True)


def test_what_is_up_to_date_is_made_again_if_forced(tiny, root):
    made, _ = runs.run(tiny, root)
    first = runs.folder(root, tiny)
    job.run(tiny, str(root))
    assert runs.folder(root, tiny) == first
    assert job.run(tiny, str(root), force=True) == made
    assert runs.folder(root, tiny).name == f"{first.name}-2" and table_runs.files(first)
    job.run(tiny, str(root))
    assert runs.folder(root, tiny).name == f"{first.name}-2", "the newest of equal builds"
