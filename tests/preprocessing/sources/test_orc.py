"""Stripes are chunks, and every value is the one that pyarrow reads."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from pipeline import errors
from preprocessing import sources
from preprocessing.rows import validate
from preprocessing.schema_inference import detect_format
from tests.preprocessing import tables

COLUMNS = {
    "name": {"type": "string", "missing": "allow"},
    "size": {"type": "float32", "missing": "allow"},
    "day": {"type": "string"},
    "tags": {"type": "string", "list": True, "max_items": 4, "missing": "allow"},
    "seen": {"type": "int64", "list": True, "max_items": 4},
    "label": {"type": "int64", "min": 0, "max": 1},
}


def _table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    day = datetime.date(2024, 6, 1)
    return pa.table(
        {
            "label": pa.array(rng.integers(0, 2, rows), pa.int8()),
            "extra": pa.nulls(rows, pa.string()),
            "seen": [rng.integers(0, 9, n % 5).tolist() for n in range(rows)],
            "tags": [None if n % 7 == 0 else ["é"] * (n % 3) for n in range(rows)],
            "day": [day + datetime.timedelta(n % 30) for n in range(rows)],
            "size": [float("nan") if n % 11 == 0 else n / 2 for n in range(rows)],
            "name": [None if n == 3 else f"n{n}" for n in range(rows)],
        }
    )


def _source(path, columns=COLUMNS):
    return sources.choose(tables.make_config(path, source="orc", columns=columns).data)


def _enforced(source):
    found = [rows for chunk in source.plan("train") for rows in source.read(chunk)]
    return [validate.enforce(rows, source.data, "train") for rows in found]


def test_rows_of_all_stripes(tmp_path):
    table = _table(6000)
    orc.write_table(table, tmp_path / "a.orc", stripe_size=1 << 12, batch_size=500)
    orc.write_table(table.slice(0, 5), tmp_path / "b.orc")
    orc.write_table(table.slice(0, 0), tmp_path / "c.orc")
    source = _source(tmp_path / "*.orc")
    assert orc.ORCFile(tmp_path / "a.orc").nstripes > 1
    chunks = source.plan("train")
    assert len(chunks) == orc.ORCFile(tmp_path / "a.orc").nstripes + 1
    assert sum(chunk.rows for chunk in chunks) == 6005
    good = _enforced(source)
    assert not any(part.letters for part in good)
    found = pa.Table.from_batches([part.batch for part in good]).to_pydict()
    read = [orc.read_table(tmp_path / name) for name in ("a.orc", "b.orc")]
    wanted = pa.concat_tables(read).to_pydict()
    assert found["name"] == wanted["name"]
    assert found["day"] == [str(day) for day in wanted["day"]]
    assert found["size"] == [None if x != x else np.float32(x) for x in wanted["size"]]
    for name in ("tags", "seen", "label"):
        assert found[name] == wanted[name]
    numbers = [n for part in good for n in part.numbers.tolist()]
    assert numbers == [*range(1, 6001), *range(1, 6)]


def test_a_row_that_does_not_fit(tmp_path):
    table = _table(3).set_column(0, "label", pa.array([0, 7, 1]))
    orc.write_table(table, tmp_path / "a.orc")
    [good] = _enforced(_source(tmp_path / "a.orc"))
    assert [(letter.row, letter.column) for letter in good.letters] == [(2, "label")]


def test_columns_of_folders(tmp_path):
    for day in ("2024-06-01", "2024-06-02"):
        (tmp_path / f"day={day}").mkdir()
        table = _table(2).drop_columns(["day"])
        orc.write_table(table, tmp_path / f"day={day}/a.orc")
    found = [part.batch for part in _enforced(_source(tmp_path / "day=*/*.orc"))]
    assert [day for batch in found for day in batch["day"].to_pylist()] == [
        *["2024-06-01"] * 2,
        *["2024-06-02"] * 2,
    ]


def test_a_config_is_proposed(tmp_path):
    table = _table(20).append_column("of", pa.array([{"a": 1}] * 20))
    orc.write_table(table, tmp_path / "a.orc")
    guess = detect_format.sniff(str(tmp_path / "a.orc"))
    assert guess.source == "orc"
    assert list(guess.left_out) == ["of"]
    assert {"tags", "seen", "label"} <= set(guess.kinds)


def test_files_that_cannot_be_read(tmp_path):
    orc.write_table(_table(2000), tmp_path / "a.orc")
    whole = (tmp_path / "a.orc").read_bytes()
    (tmp_path / "b.orc").write_bytes(whole[:-30])
    with pytest.raises(errors.DataError, match=r"b\.orc': not readable as ORC: .+") as caught:
        _source(tmp_path / "b.orc").plan("train")
    assert "\n" not in str(caught.value)
    with pytest.raises(errors.DataError, match=r"column 'nme' of the config is missing \(did you"):
        _source(tmp_path / "a.orc", {**COLUMNS, "nme": {"type": "string"}}).plan("train")
