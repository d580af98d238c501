"""Records say where they are from if they are asked to, whatever the source."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import config, errors
from preprocessing.sources import base
from tests.preprocessing import examples, idx_files, pictures, table_runs, tables
from trainer.input import parsing

_NAMES = list(config.PROVENANCE)


def _rows(job_config, tmp_path, **options):
    """Returns the records with their provenance, as if it had been declared."""
    made, folder, _ = table_runs.run(job_config, tmp_path, **options)
    columns = {**job_config.data.columns, **config.PROVENANCE}
    wide = job_config.model_copy(
        update={"data": job_config.data.model_copy(update={"columns": columns})}
    )
    return [row for split in made.splits for row in table_runs.records(wide, made, folder, split)]


def _table(count):
    return [{"id": n, "name": f"n{n}", "size": 1.0, "label": n % 2} for n in range(count)]


@pytest.fixture
def folder(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.csv").write_text(tables.text(*tables.rows(30)))
    (raw / "b.csv.gz").write_bytes(gzip.compress(tables.text(*tables.rows(20, 100)).encode()))
    (raw / "a.jsonl").write_text("\n".join(json.dumps(row) for row in _table(30)))
    pq.write_table(pa.Table.from_pylist(_table(30)), raw / "a.parquet", row_group_size=7)
    examples.write(raw / "a.tfrecord", [examples.row(n) for n in range(30)])
    return raw


def test_csv_rows_are_those_of_the_file(folder, tmp_path):
    bad = folder / "a.csv"
    bad.write_text(bad.read_text().replace("\n3,n3,3.5,1\n", "\n3,n3,500,1\n"))
    job_config = tables.make_config(folder / "*.csv*", provenance=True, error_budget=1)
    found = _rows(job_config, tmp_path)
    assert len(found) == 49
    for row in found:
        name = row["provenance/source"].decode()
        assert name.startswith("train/files/")
        path = folder / name.rpartition("/")[2]
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        line = text.splitlines()[row["provenance/row"] - 1].split(",")
        assert int(line[0]) == row["id"]


@pytest.mark.parametrize("source", ["jsonl", "parquet", "tfrecord"])
def test_other_files(folder, tmp_path, source):
    job_config = tables.make_config(folder / f"a.{source}", source=source, provenance=True)
    found = _rows(job_config, tmp_path)
    assert {row["provenance/source"] for row in found} == {f"train/files/a.{source}".encode()}
    assert sorted((row["id"], row["provenance/row"]) for row in found) == [
        (n, n + 1) for n in range(30)
    ]


def test_images(tmp_path):
    pictures.write(tmp_path / "raw", {"cat": 5, "dog": 4})
    (tmp_path / "raw" / "cat" / "001.png").write_bytes(b"x")
    job_config = pictures.make_config(
        tmp_path / "raw", provenance=True, error_budget=1, split={"eval": 0.4}
    )
    found = _rows(job_config, tmp_path)
    assert len(found) == 8
    for row in found:
        assert row["provenance/source"] == b"train/images/" + row["path"]
        assert row["provenance/row"] == 1


def test_idx(tmp_path):
    inputs = {"train": idx_files.write_pair(tmp_path / "raw", "train", 40)}
    found = _rows(idx_files.make_config(inputs, provenance=True), tmp_path)
    assert {row["provenance/source"] for row in found} == {b"train/images/train-images"}
    assert sorted(row["provenance/row"] for row in found) == list(range(40))
    labels = idx_files.labels(40)
    assert all(row["label"] == labels[row["provenance/row"]] for row in found)


@pytest.mark.heavy
def test_the_trainer_does_not_see_it_and_workers_change_nothing(folder, tmp_path):
    job_config = tables.make_config(folder / "a.csv", provenance=True)
    made, records, _ = table_runs.run(job_config, tmp_path / "whole")
    assert set(parsing.build_parsing_spec(made.columns)) == set(tables.COLUMNS)
    assert set(table_runs.records(job_config, made, records)[0]) == set(tables.COLUMNS)
    _, again, _ = table_runs.run(
        job_config, tmp_path / "cut", num_workers=2, sizes=base.Sizes(100, 200)
    )
    assert table_runs.files(again) == table_runs.files(records)


def test_a_column_of_that_name(folder):
    columns = {**tables.COLUMNS, _NAMES[0]: {"type": "string"}}
    tables.make_config(folder / "a.csv", columns)
    with pytest.raises(errors.UsageError, match="provenance: writes 'provenance/source', which is"):
        tables.make_config(folder / "a.csv", columns, provenance=True)
