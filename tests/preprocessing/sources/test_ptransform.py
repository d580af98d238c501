"""Rows of a `PTransform`: the example of the docs, batches, duplicates, and what is refused."""

from __future__ import annotations

import pathlib
import re
import sys

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from pipeline import errors
from pipeline.config import config_file
from preprocessing import sources
from preprocessing.dead_letters import corrections
from preprocessing.sources import ptransform
from tests.preprocessing import table_runs, tables

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "sources.md"
ROWS = [{"id": n, "name": f"n{n}", "size": float(n % 100), "label": n % 2} for n in range(300)]


class Dictionaries(beam.PTransform):
    """300 good rows, a bad one, and two of one key."""

    def __init__(self, inputs):
        super().__init__()
        self._inputs = inputs

    def expand(self, begin):
        more = [{"id": "x", "label": 0}, {"id": 7, "name": "other", "label": 1}]
        return begin | beam.Create([*ROWS, *more], reshuffle=True)


class Batches(Dictionaries):
    """The same as record batches and a table; columns in another order, and one more."""

    def expand(self, begin):
        table = pa.Table.from_pylist([{"more": 1, **row} for row in reversed(ROWS)])
        parts = [table.slice(0, 100), *table.slice(100).to_batches(max_chunksize=70)]
        return begin | beam.Create(parts)


class OfPandas(Dictionaries):
    """A table as pandas makes them, with a row that is bad."""

    def expand(self, begin):
        times = pa.array([1, 1001], pa.timestamp("ns"))
        return begin | beam.Create([pa.table({"id": times, "name": times, "label": [0, 7]})])


class Closed(beam.PTransform):
    """Takes no inputs."""

    def __init__(self):
        super().__init__()


class Lacking(Dictionaries):
    """Batches without a column."""

    def expand(self, begin):
        return begin | beam.Create([pa.table({"id": [1], "label": [0]})])


def _config(kind, **data):
    name = f"{__name__}:{kind.__name__}"
    return tables.make_config("-", source=name, key=["id"], **data)


def _rows(job_config, made, folder):
    return [
        row for split in made.splits for row in table_runs.records(job_config, made, folder, split)
    ]


def test_the_example_of_the_docs(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.S)[1]
    assert len(code.splitlines()) < 40
    (tmp_path / "readings.py").write_text(code)
    (tmp_path / "job.yaml").write_text(re.search(r"```yaml\n(.*?)```", DOCS.read_text(), re.S)[1])
    (tmp_path / "logs").mkdir()
    for part in range(2):
        lines = [f"id={n} celsius={n / 10} room=r{n % 3}" for n in range(part, 400, 2)]
        (tmp_path / "logs" / f"{part}.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "logs" / "1.txt").open("a").write("id=1000 celsius=99 room=oven\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "readings", raising=False)
    job_config = config_file.load(str(tmp_path / "job.yaml"))
    made, folder, _ = table_runs.run(job_config, tmp_path / "out")
    found = _rows(job_config, made, folder)
    assert sorted(row["id"] for row in found) == list(range(400))
    assert all(row["room"] == b"r%d" % (row["id"] % 3) for row in found)
    (letter,) = table_runs.letters(folder)
    assert (letter["column"], letter["reason"], letter["row"]) == ("celsius", "range", -1)
    assert "nothing to do" in table_runs.run(job_config, tmp_path / "out")[2]


def test_bundles_and_workers_change_nothing(tmp_path, monkeypatch):
    job_config = _config(Dictionaries, error_budget=2)
    made, folder, _ = table_runs.run(job_config, tmp_path / "whole")
    found = _rows(job_config, made, folder)
    assert sorted(row["id"] for row in found) == list(range(300))
    assert {row["id"]: row["name"] for row in found}[7] in (b"n7", b"other")
    reasons = [(x["column"], x["reason"]) for x in table_runs.letters(folder)]
    assert sorted(reasons) == [("id", "duplicate"), ("id", "type")]
    shards = {n: c for n, c in table_runs.files(folder).items() if "dead_letter" not in n}
    monkeypatch.setattr(ptransform, "BATCH_ROWS", 11)
    _, again, _ = table_runs.run(job_config, tmp_path / "cut")
    assert {n: c for n, c in table_runs.files(again).items() if "dead_letter" not in n} == shards
    _, again, _ = table_runs.run(job_config, tmp_path / "workers", num_workers=2)
    assert {n: c for n, c in table_runs.files(again).items() if "dead_letter" not in n} == shards
    assert "nothing to do" not in table_runs.run(job_config, tmp_path / "cut")[2], (
        "what it read is unknown"
    )


def test_arrow_batches(tmp_path):
    job_config = _config(Batches)
    made, folder, _ = table_runs.run(job_config, tmp_path)
    assert sorted(row["id"] for row in _rows(job_config, made, folder)) == list(range(300))


def test_nanoseconds_of_a_row_that_is_bad_can_be_shown(tmp_path):
    columns = {**tables.COLUMNS, "name": {"type": "string"}}
    del columns["size"]
    job_config = _config(OfPandas, columns=columns, error_budget=1, split={"eval": 0.0})
    made, folder, _ = table_runs.run(job_config, tmp_path)
    (row,) = _rows(job_config, made, folder)
    assert (row["id"], row["name"]) == (1, b"1970-01-01 00:00:00.000000001")
    (letter,) = table_runs.letters(folder)
    assert letter["raw"] == {"id": 1001, "name": "1970-01-01 00:00:00.000001001", "label": 7}


def test_a_batch_that_lacks_a_column(tmp_path):
    with pytest.raises(
        errors.DataError, match=r"test_ptransform:Lacking': column 'name' of the config is missing"
    ):
        table_runs.run(_config(Lacking), tmp_path)


def test_rows_must_have_a_key_and_the_transform_take_inputs():
    keyless = tables.make_config("-", source=f"{__name__}:Dictionaries")
    with pytest.raises(errors.UsageError, match=r"Dictionaries' is a transform, whose rows have "):
        sources.choose(keyless.data)
    with pytest.raises(errors.UsageError, match=r"Closed' cannot be built with the inputs of a sp"):
        sources.choose(_config(Closed).data).build_transform("train")


def test_values_of_different_types_become_text():
    mixed = [{"id": 1}, {"id": "a", "v": np.array([[1, 2]])}, {"id": b"\xff", "v": None}]
    gather = ptransform.Gather("train", ("id", "v"))
    for row in mixed:
        assert not list(gather.process(row))
    (found,) = gather.finish_bundle()
    split, batch = found.value
    assert split == "train"
    assert batch.to_pydict() == {"id": [b"1", b"a", b"\xff"], "v": [None, [1, 2], None]}
    assert ptransform.hash_batch(batch) != ptransform.hash_batch(batch.slice(1))


def test_nan_is_no_value(tmp_path):
    data = _config(Batches).data
    nan = pa.array([1.0, np.nan])
    rows = ptransform.build_rows(
        pa.record_batch([nan] * 4, names=["id", "name", "size", "label"]), data
    )
    assert all(rows.batch.column(n).to_pylist() == [1.0, None] for n in tables.COLUMNS)


def test_corrections_of_numbered_rows_do_not_touch_it(tmp_path):
    job_config = _config(Batches)
    made, folder, _ = table_runs.run(job_config, tmp_path)
    one = corrections.Correction(file="a", row=3, reason="type", of="x", raw={"id": 5})
    corrections.write(str(folder), [one])
    again, _, _ = table_runs.run(job_config, tmp_path)
    assert again.splits == made.splits
