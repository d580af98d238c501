"""Columns in the names of folders are read like those in the files."""

from __future__ import annotations

import pathlib

import pytest

from pipeline import errors
from pipeline.source_table import SOURCES
from preprocessing import sources
from preprocessing.build import job as preprocessing
from preprocessing.rows import validate
from preprocessing.schema_inference import detect_format, profile
from preprocessing.sources import partitions
from tests.preprocessing import raw_files, table_runs, tables

COLUMNS = {
    "id": {"type": "int64"},
    "day": {"type": "string"},
    "hour": {"type": "int64", "missing": "allow"},
    "label": {"type": "int64"},
}
FOLDERS = (
    "day=2024-06-01/hour=1",
    "day=2024-06-02/hour=23",
    "day=a%2Fb/hour=__HIVE_DEFAULT_PARTITION__",
)
KINDS = [name for name, kind in SOURCES.items() if kind.in_folders]
EXPECTED = [("2024-06-01", 1), ("2024-06-02", 23), ("a/b", None)]


def _write(folder: pathlib.Path, kind: str) -> pathlib.Path:
    for index, name in enumerate(FOLDERS):
        (folder / name).mkdir(parents=True)
        path = folder / name / f"part.{kind}"
        rows = [{"id": i, "label": i % 2} for i in range(index * 10, index * 10 + 10)]
        path.write_bytes(raw_files.content(kind, rows))
    return folder


def _config(pattern, kind, **data):
    return tables.make_config(pattern, COLUMNS, source=kind, error_budget=1, **data)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_folders_are_columns_of_rows(tmp_path, kind):
    data = _config(_write(tmp_path / "lake", kind) / "day=*" / "hour=*" / f"*.{kind}", kind).data
    source = sources.choose(data)
    found = []
    for chunk in source.plan("train"):
        for rows in source.read(chunk):
            good = validate.enforce(rows, data, "train")
            assert not good.letters
            found += [(r["id"], r["day"], r["hour"]) for r in good.batch.to_pylist()]
    assert found == [(i, *EXPECTED[i // 10]) for i in range(30)]


def test_a_folder_named_in_full_says_its_column_too(tmp_path):
    _write(tmp_path / "lake", "parquet")
    for name, (day, hour) in zip(FOLDERS, EXPECTED, strict=True):
        source = sources.choose(_config(tmp_path / "lake" / name / "part.parquet", "parquet").data)
        (rows,) = source.read(source.plan("train")[0])
        assert set(rows.batch["day"].to_pylist()) == {day.encode()}
        assert rows.batch["hour"][0].as_py() == (None if hour is None else b"%d" % hour)
        (file,) = source.files()
        assert file.name == f"train/files/{name}/part.parquet", "its column decides the records"


def test_bad_values_are_dead_letters_of_their_file(tmp_path):
    _write(tmp_path / "lake", "csv")
    strict = {**COLUMNS, "hour": {"type": "int64", "max": 12, "missing": "allow"}}
    pattern = tmp_path / "lake" / "day=*" / "hour=*" / "*"
    data = tables.make_config(pattern, strict, error_budget=0.5).data
    source = sources.choose(data)
    letters = []
    for chunk in source.plan("train"):
        for rows in source.read(chunk):
            letters += validate.enforce(rows, data, "train").letters
    assert len(letters) == 10
    expected = "hour=23/part.csv': row 2: column 'hour' is 23, allowed is 12 or less"
    assert str(letters[0]).endswith(expected)


def _read_days(data) -> list[str | None]:
    source = sources.choose(data)
    parts = [rows for chunk in source.plan("train") for rows in source.read(chunk)]
    kept = [validate.enforce(rows, data, "train").batch for rows in parts]
    return [day for batch in kept for day in batch["day"].to_pylist()]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_file_has_itself_is_read_from_there(tmp_path, kind):
    folder = tmp_path / "day=folder"
    folder.mkdir()
    path = folder / f"a.{kind}"
    rows = [{"id": 1, "day": "file", "hour": 2, "label": 0}]
    path.write_bytes(raw_files.content(kind, rows))
    data = _config(path, kind).data
    assert _read_days(data) == ["file"]
    assert sources.choose(data).remarks == [partitions.describe_both("day")]
    (said,) = detect_format.sniff(str(path)).remarks
    assert said.startswith("'day' is in the names of folders and in the files: that of the files")


@pytest.mark.parametrize(
    ("first", "days"),
    [
        ('{"id": 1, "label": 0}\n{"id": 2, "day": "file", "label": 1}\n', [None, "file", None]),
        ('no row\n{"id": 2, "\\u0064ay": null, "label": 1}\n', [None, None]),
        ('\n{"id": 1, "label": 0, "other": {"day": 1}}\n', ["folder", "folder"]),
        ('\n{"id": 1, "label": 0}\n', ["folder", "folder"]),
        ("\n", ["folder"]),
        ("", ["folder"]),
    ],
)
def test_the_first_rows_of_json_lines_say_what_the_files_have(tmp_path, first, days):
    """Any of them may lack what is missing."""
    (tmp_path / "day=folder").mkdir()
    (tmp_path / "day=folder" / "a.jsonl").write_text(first)
    (tmp_path / "day=folder" / "b.jsonl").write_text('{"id": 3, "label": 0}\n')
    columns = {**COLUMNS, "day": {"type": "string", "missing": "allow"}}
    pattern = tmp_path / "day=folder" / "*.jsonl"
    data = tables.make_config(pattern, columns, source="jsonl", error_budget=1).data
    assert _read_days(data) == days
    said = [] if "folder" in days else [partitions.describe_both("day")]
    assert sources.choose(data).remarks == said


def test_the_first_file_of_json_lines_with_rows_decides(tmp_path):
    (tmp_path / "day=folder").mkdir()
    for name, text in (("a", "\n"), ("b", '{"id": 3, "day": "file", "label": 0}\n')):
        (tmp_path / "day=folder" / f"{name}.jsonl").write_text(text)
    assert _read_days(_config(tmp_path / "day=folder" / "*.jsonl", "jsonl").data) == ["file"]


def test_a_column_that_not_all_paths_have_is_missing(tmp_path):
    _write(tmp_path / "lake", "csv")
    (tmp_path / "lake" / "day=x").mkdir()
    (tmp_path / "lake" / "day=x" / "b.csv").write_text("id,label\n1,0\n")
    source = sources.choose(_config(tmp_path / "lake" / "**" / "*.csv", "csv").data)
    line = r"'[^']*day=x/b\.csv': column 'hour' of the config is missing: no folder of its path is "
    with pytest.raises(errors.DataError, match=line + r"hour=\.\.\., as of '[^']*hour=\S+\.csv'"):
        source.plan("train")


def test_rows_that_have_no_column_for_some_folders_are_remarked(tmp_path):
    """Where each row says which columns it has, the folders of some files count for none."""
    _write(tmp_path / "lake", "jsonl")
    (tmp_path / "lake" / "day=x").mkdir()
    (tmp_path / "lake" / "day=x" / "b.jsonl").write_text('{"id": 1, "label": 0}\n')
    source = sources.choose(_config(tmp_path / "lake" / "**" / "*.jsonl", "jsonl").data)
    [remark] = source.remarks
    assert remark.startswith("'hour' is in the names of folders, as of ")
    assert remark.endswith("day=x/b.jsonl': that of the files is read")


@pytest.mark.parametrize("owner", ["h=7", "x"])
def test_a_column_that_one_file_has_itself_is_named_with_that_file(tmp_path, owner):
    for name, header, row in ((owner, "id,label,h", "1,0,9"), ("h=8", "id,label", "2,1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"{header}\n{row}\n")
    columns = {name: {"type": "int64"} for name in ("id", "label", "h")}
    source = sources.choose(tables.make_config(tmp_path / "*" / "a.csv", columns).data)
    with pytest.raises(errors.DataError) as found:
        source.plan("train")
    assert str(found.value) == (
        f"'{tmp_path}/h=8/a.csv': column 'h' of the config is missing in the file. "
        f"'{tmp_path}/{owner}/a.csv' has it itself, and then the folder h=... of no file counts: "
        "remove or rename it in one of the two"
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_preprocessing_warns_of_a_column_that_folders_and_files_have(tmp_path, capsys, kind):
    (tmp_path / "day=folder").mkdir()
    rows = [{"id": n, "day": "file", "hour": 2, "label": n % 2} for n in range(60)]
    (tmp_path / "day=folder" / f"a.{kind}").write_bytes(raw_files.content(kind, rows))
    preprocessing.run(_config(tmp_path / "*" / f"a.{kind}", kind), str(tmp_path))
    assert f"warning: {partitions.describe_both('day')}\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_has_them(tmp_path, kind):
    guess = detect_format.sniff(str(_write(tmp_path / "lake", kind)))
    assert guess.pattern == str(tmp_path / "lake" / "day=*" / "hour=*" / f"*.{kind}")
    assert set(guess.kinds) == set(COLUMNS)
    found = profile.survey(sources.choose(guess.data()), guess.kinds)
    assert found.rows == 30 and found.columns["hour"].kind == "int64"
    assert found.columns["hour"].missing == 10 and found.columns["day"].kind == "string"


def test_folders_of_different_columns_are_refused(tmp_path):
    _write(tmp_path / "lake", "csv")
    (tmp_path / "lake" / "day=3").mkdir()
    (tmp_path / "lake" / "day=3" / "b.csv").write_text("id,label\n1,0\n")
    with pytest.raises(errors.DataError, match="its folders name different columns") as info:
        detect_format.sniff(str(tmp_path / "lake"))
    assert "\n" not in str(info.value)


def test_a_whole_job_with_a_split_by_such_a_column(tmp_path):
    pattern = _write(tmp_path / "lake", "parquet") / "*" / "*" / "*.parquet"
    rule = {
        "by": "column",
        "column": "day",
        "values": {"2024-06-01": "train", "2024-06-02": "eval", "a/b": "test"},
    }
    job_config = _config(pattern, "parquet", split=rule)
    made, folder, _ = table_runs.run(job_config, tmp_path)
    days = {
        s: {r["day"] for r in table_runs.records(job_config, made, folder, s)} for s in made.splits
    }
    assert days == {"train": {b"2024-06-01"}, "eval": {b"2024-06-02"}, "test": {b"a/b"}}


def test_paths():
    assert partitions.read_columns("a=1/x/day=2/h=%20/f.csv") == {"day": "2", "h": " "}
    assert partitions.read_columns("/data/f=1.csv") == {}
    assert partitions.find_common(["a=1/b=2/f", "b=3/a=/f"]) == ["a", "b"]
    assert partitions.find_common([]) == []
