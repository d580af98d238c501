"""Builds of files that are used where they lie: what is scanned, found again, and refused."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import shutil

import pytest

from pipeline import config, errors
from pipeline.records import builds, in_place, manifest, shard_check
from pipeline.runs import run_folder
from preprocessing.build import job
from preprocessing.shards import record_folders, scanned
from tests.preprocessing import examples, tables

FILL = {"missing": {"fill": 0}}
FEW = {"train-a": 300, "train-b": 100, "train-c": 0, "eval": 40}


def write(path: pathlib.Path, rows: int, first: int = 0) -> None:
    examples.write(path, [examples.row(first + n) for n in range(rows)])


@pytest.fixture
def theirs(tmp_path) -> pathlib.Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for number, (name, rows) in enumerate(FEW.items()):
        write(folder / f"{name}.tfrecord", rows, 1000 * number)
    return folder


def make(folder: pathlib.Path, **more) -> config.Config:
    """Returns a job on the files in `folder`, whose columns have no rules."""
    columns = {
        "id": {"type": "int64"},
        "name": {"type": "string"},
        "size": {"type": "float32", "missing": "allow"},
        "label": {"type": "int64"},
    }
    given = {
        "source": "tfrecord",
        "in_place": True,
        "inputs": {split: {"f": f"{folder}/{split}*.tfrecord"} for split in ("train", "eval")},
        "block_records": 32,
        "columns": columns,
        "label": "label",
    }
    features = more.pop("features", {"size": {"steps": [FILL]}})
    model = {"name": "dnn", "params": {"classes": 2}}
    return config.Config.model_validate(
        {
            **{"name": "theirs", "data": {**given, **more}, "features": features, "model": model},
            "train": {"steps": 10, "batch_size": 8},
        }
    )


def run(wanted: config.Config, tmp_path: pathlib.Path, **options) -> tuple[str, manifest.Manifest]:
    """Returns what was printed, and the manifest."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        made = job.run(wanted, str(tmp_path / "output"), **options)
    return said.getvalue(), made


def current(tmp_path) -> pathlib.Path:
    return pathlib.Path(builds.find_current(str(records(tmp_path))))


def records(tmp_path) -> pathlib.Path:
    return pathlib.Path(run_folder.records_folder(str(tmp_path / "output"), "theirs"))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_manifest_names_their_files_and_nothing_is_copied(theirs, tmp_path, num_workers):
    said, made = run(make(theirs), tmp_path, num_workers=num_workers)
    assert f"reading train in place, {theirs}/train*.tfrecord" in said
    assert {name: split.records for name, split in made.splits.items()} == {
        "train": 400,
        "eval": 40,
    }
    paths = [str(theirs / f"train-{name}.tfrecord") for name in "abc"]
    assert [shard.path for shard in made.splits["train"].shards] == paths
    assert made.splits["train"].shards[0] == in_place.shard_of(paths[0], 32)
    assert not made.statistics
    assert sorted(os.listdir(current(tmp_path))) == ["manifest.json", "verified.json"]
    assert builds.size(str(current(tmp_path))) == 0
    assert not list(records(tmp_path).glob("_tmp*"))


def test_an_empty_feature_of_another_type_is_refused(theirs, tmp_path):
    """To TensorFlow, which will read these records as they are, it is no missing value."""
    payload = examples.example(id=1, name=b"a", size=[], label=0)  # of int64
    examples.write(theirs / "train-d.tfrecord", [payload])
    line = r"train-d\.tfrecord': row 1: column 'size' has a int64_list, float32 has a float_list\. "
    with pytest.raises(errors.DataError, match=line):
        run(make(theirs, in_place="values"), tmp_path)


def test_what_is_unchanged_is_not_read_again(theirs, tmp_path, monkeypatch):
    _, made = run(make(theirs), tmp_path)
    monkeypatch.setattr(shard_check, "checksum_of", None)
    said, again = run(make(theirs), tmp_path)
    assert "up to date (train 400, eval 40), nothing to do" in said
    assert again == made


def test_a_file_that_was_touched_is_compared_and_one_that_was_changed_is_named(theirs, tmp_path):
    _, made = run(make(theirs), tmp_path)
    path = theirs / "train-b.tfrecord"
    os.utime(path)
    said, again = run(make(theirs), tmp_path)
    assert "up to date" in said and again == made
    write(path, 100, 7000)  # of the same length
    said, again = run(make(theirs), tmp_path)
    assert f"shard '{path}': CRC-32C" in said and "it was altered; reading all files again" in said
    assert again.splits["train"].shards[1] != made.splits["train"].shards[1]
    write(path, 50, 7000)
    said, again = run(make(theirs), tmp_path)
    assert f"shard '{path}': {path.stat().st_size} bytes, the manifest says" in said
    path.unlink()
    said, again = run(make(theirs), tmp_path)
    assert again.splits["train"].records == 300


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"in_place": "values"}, "data.in_place: values"),
        (
            {"features": {"size": {"steps": [FILL, "z_score"]}}},
            "features.size: z_score needs the mean",
        ),
        (
            {"columns": {**tables.COLUMNS, "id": {"type": "int64"}}},
            "data.columns.name.max_length is a rule for values",
        ),
    ],
)
def test_values_are_read_where_something_asks_for_them(theirs, tmp_path, more, why):
    run(make(theirs), tmp_path)
    said, made = run(make(theirs, **more), tmp_path)
    assert f"values are read too, which takes longer: {why}" in said
    found = made.statistics["train"].columns["size"]
    assert (found.count, found.missing) == (320, 80)
    assert "up to date" in run(make(theirs, **more), tmp_path)[0]


def test_a_value_that_breaks_a_rule_is_named_with_its_file(theirs, tmp_path):
    columns = {**make(theirs).model_dump()["data"]["columns"]}
    columns["size"] = {"type": "float32", "missing": "allow", "max": 98}
    problem = f"'{theirs}/train-a.tfrecord': row 100: column 'size' is 99.0, .*no row can be left"
    with pytest.raises(errors.DataError, match=problem):
        run(make(theirs, columns=columns), tmp_path)
    assert not list(records(tmp_path).glob("[!.]*"))


def test_a_wrong_type_is_found_in_the_first_records(theirs, tmp_path):
    columns = {"size": {"type": "float32"}, "label": {"type": "float32"}}
    with pytest.raises(errors.DataError, match="row 1: column 'label' has a int64_list, float32"):
        run(make(theirs, columns=columns), tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda f: shutil.rmtree(f), "no file fits this pattern"),
        (
            lambda f: os.symlink(f / "eval.tfrecord", f / "train-z.tfrecord"),
            "in data.inputs.eval and",
        ),
        (
            lambda f: shutil.copy(f / "eval.tfrecord", f / "train-z.tfrecord"),
            "is a copy of .* of eval",
        ),
        (lambda f: [(f / f"train-{n}.tfrecord").write_bytes(b"") for n in "ab"], "train is empty"),
        (
            lambda f: os.truncate(f / "train-b.tfrecord", 100),
            r"train-b.*record \d+, at byte .*truncat",
        ),
    ],
)
def test_what_cannot_be_trained_on_is_refused(theirs, tmp_path, change, problem):
    change(theirs)
    with pytest.raises(errors.DataError, match=problem):
        run(make(theirs), tmp_path)
    assert not list(records(tmp_path).glob("[!.]*")), "only locks stay"


def test_a_folder_is_no_file(theirs, tmp_path):
    inputs = {"train": {"f": str(theirs)}, "eval": {"f": f"{theirs}/eval.tfrecord"}}
    with pytest.raises(
        errors.DataError, match=r"is a folder; name the files in it, .*/\*\.tfrecord"
    ):
        run(make(theirs, inputs=inputs), tmp_path)


def test_a_file_named_twice_is_refused(theirs, tmp_path):
    inputs = {"train": {"a": f"{theirs}/train*", "b": f"{theirs}/train-a.tfrecord"}}
    with pytest.raises(errors.DataError, match=r"named twice in data\.inputs\.train"):
        run(make(theirs, inputs=inputs, split={"eval": 0}), tmp_path)


def test_a_killed_scan_resumes_where_it_was(theirs, tmp_path, monkeypatch):
    """Files of a size that are not put together."""
    for n in range(5):
        write(theirs / f"train-{n}.tfrecord", 200, 5000 * n)
    real, read = in_place.shard_of, []

    def killed(path, *how):
        read.append(path)
        if len(read) > 4:
            raise KeyboardInterrupt
        return real(path, *how)

    monkeypatch.setattr(in_place, "shard_of", killed)
    with pytest.raises(KeyboardInterrupt):
        run(make(theirs), tmp_path)
    [left] = records(tmp_path).glob("_tmp*")
    assert scanned.count_bytes_read(str(left)) > 0
    monkeypatch.setattr(
        in_place, "shard_of", lambda path, *how: read.append(path) or real(path, *how)
    )
    said, made = run(make(theirs), tmp_path)
    assert "an unfinished run had finished" in said and "kB): using them" in said
    assert made.splits["train"].records == 1400
    assert len(read) < 2 * len(set(read)), "what was finished is not read again"
    assert made == run(make(theirs), tmp_path, force=True)[1]


def test_a_scan_with_values_does_not_use_pieces_without(theirs, tmp_path, monkeypatch):
    monkeypatch.setattr(record_folders.Folders, "read_statistics", lambda self: 1 / 0)
    monkeypatch.setattr("preprocessing.build.in_place.build_manifest", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(make(theirs), tmp_path)
    monkeypatch.undo()
    said, made = run(make(theirs, features={"size": {"steps": [FILL, "z_score"]}}), tmp_path)
    assert "starting over: they were read with other settings" in said
    assert made.statistics["train"].columns["size"].mean is not None


def _interrupted(*_, **__):
    raise KeyboardInterrupt


def test_dataflow_is_refused(theirs, tmp_path):
    with pytest.raises(errors.UsageError, match="read where the command runs"):
        run(make(theirs), tmp_path, elsewhere=object())
