"""Row groups are chunks, and columns may come in any order and in types that fit."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import errors
from preprocessing import sources
from preprocessing.rows import validate
from preprocessing.schema_inference import profile
from preprocessing.sources import base
from tests.preprocessing import tables


def _table(rows: int) -> pa.Table:
    return pa.table(
        {
            "label": pa.array([i % 2 for i in range(rows)], pa.int8()),
            "extra": pa.nulls(rows),
            "name": pa.array(
                [None if i == 3 else f"n{i}" for i in range(rows)]
            ).dictionary_encode(),
            "size": pa.array([i / 2 for i in range(rows)], pa.float64()),
            "id": pa.array(range(rows), pa.int32()),
        }
    )


def _source(folder, sizes=base.SIZES) -> base.Source:
    return sources.choose(tables.make_config(folder / "*.parquet", source="parquet").data, sizes)


def test_rows_of_all_groups(tmp_path):
    pq.write_table(_table(100), tmp_path / "a.parquet", row_group_size=30)
    pq.write_table(_table(5), tmp_path / "b.parquet")
    source = _source(tmp_path, base.Sizes(read=200))
    chunks = source.plan("train")
    assert [chunk.rows for chunk in chunks] == [30, 30, 30, 10, 5]
    found = [rows for chunk in chunks for rows in source.read(chunk)]
    assert len(found) > 5
    good = [validate.enforce(rows, source.data, "train") for rows in found]
    values = [row for part in good for row in part.batch.to_pylist()]
    assert values[3] == {"id": 3, "name": None, "size": 1.5, "label": 1}
    assert [row["id"] for row in values] == [*range(100), *range(5)]
    assert [n for part in good for n in part.numbers.tolist()] == [*range(1, 101), *range(1, 6)]
    assert not any(part.letters for part in good)


def test_values_that_do_not_fit(tmp_path):
    table = _table(3).set_column(4, "id", pa.array([1.0, 1.5, None]))
    pq.write_table(table, tmp_path / "a.parquet")
    source = _source(tmp_path)
    (rows,) = source.read(source.plan("train")[0])
    good = validate.enforce(rows, source.data, "train")
    assert [str(letter).partition(": ")[2] for letter in good.letters] == [
        "row 2: column 'id' is 1.5, not int64",
        "row 3: column 'id' has no value",
    ]


@pytest.mark.parametrize(
    ("array", "as_text"),
    [
        (pa.array([1], pa.timestamp("ns", "UTC")), "1970-01-01 00:00:00.000000001Z"),
        (pa.array([1], pa.time64("ns")), "00:00:00.000000001"),
        (pa.array([1], pa.date32()), "1970-01-02"),
        (pa.array(np.array([1.5], np.float16)), "1.5"),
        (pa.array(["x"], pa.string_view()), "x"),
        (pa.array(["x"], pa.large_string()), "x"),
        (pa.array([b"x"], pa.binary_view()), "x"),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))), "0" * 16),
        (pa.array([decimal.Decimal("1.50")]), "1.50"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_types_that_arrow_can_do_little_with(tmp_path, array, as_text):
    pq.write_table(pa.table({"name": array, "label": [0]}), tmp_path / "a.parquet")
    columns = {"name": {"type": "string"}, "label": {"type": "int64"}}
    job = tables.make_config(tmp_path / "*.parquet", source="parquet", columns=columns)
    source = sources.choose(job.data)
    (rows,) = source.read(source.plan("train")[0])
    found = profile.ColumnProfile()
    found.see(rows.batch.column("name"))
    assert found.values == 1 and found.list_some()
    good = validate.enforce(rows, source.data, "train")
    assert good.batch.column("name").to_pylist() == [as_text]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.duration("ns")]
)
def test_nanoseconds_of_a_row_that_is_bad_can_be_shown(tmp_path, kind):
    table = _table(2).set_column(4, "id", pa.array([5, 1001], kind))
    pq.write_table(table.set_column(0, "label", pa.array([0, 7])), tmp_path / "a.parquet")
    source = _source(tmp_path)
    (rows,) = source.read(source.plan("train")[0])
    good = validate.enforce(rows, source.data, "train")
    assert good.batch.column("id").to_pylist() == [5]
    assert [letter.raw["id"] for letter in good.letters] == [1001]


def test_rows_that_take_almost_no_room_are_not_read_all_at_once(tmp_path):
    names = pa.array(["x" * 1000]).dictionary_encode().take(pa.array([0] * 200_000))
    pq.write_table(pa.table({"name": names, "label": [0] * 200_000}), tmp_path / "a.parquet")
    columns = {"name": {"type": "string"}, "label": {"type": "int64"}}
    job = tables.make_config(tmp_path / "*.parquet", source="parquet", columns=columns)
    source = sources.choose(job.data)
    (chunk,) = source.plan("train")
    sizes = [rows.batch.num_rows for rows in source.read(chunk)]
    assert sum(sizes) == 200_000 and max(sizes) <= 1 << 16


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_nan_is_no_value(tmp_path, kind):
    sizes = pa.array(np.array([1.5, np.nan, np.inf], kind))
    pq.write_table(_table(3).set_column(3, "size", sizes), tmp_path / "a.parquet")
    source = _source(tmp_path)
    (rows,) = source.read(source.plan("train")[0])
    assert rows.batch.column("size").to_pylist() == [1.5, None, np.inf]


def test_an_infinite_number_is_no_text(tmp_path):
    """NaN is no value, as in JSON lines."""
    names = pa.array([1.5, np.nan, np.inf, None, -np.inf])
    table = pa.table({"name": names, "label": [1] * 5})
    pq.write_table(table, tmp_path / "a.parquet")
    columns = {"name": {"type": "string", "missing": "allow"}, "label": {"type": "int64"}}
    data = tables.make_config(tmp_path / "*.parquet", columns, source="parquet").data
    source = sources.choose(data)
    (rows,) = source.read(source.plan("train")[0])
    good = validate.enforce(rows, data, "train")
    assert good.batch.column("name").to_pylist() == ["1.5", None, None]
    assert [(x.row, x.column, x.reason, x.value) for x in good.letters] == [
        (3, "name", "finite", "inf"),
        (5, "name", "finite", "-inf"),
    ]


@pytest.mark.parametrize(
    ("element", "value", "shown"),
    [
        (pa.timestamp("ns"), 1, "1970-01-01 00:00:00.000000001"),
        (pa.float16(), np.float16(1.5), "1.5"),
        (pa.string_view(), "x", "x"),
        (pa.date32(), 1, "1970-01-02"),
    ],
    ids=str,
)
@pytest.mark.parametrize("length", [-1, 2])
def test_lists_of_types_that_arrow_can_do_little_with(tmp_path, element, value, shown, length):
    lists = pa.array([[value, value]], pa.list_(element, length))
    pq.write_table(pa.table({"id": lists, "label": [0]}), tmp_path / "a.parquet")
    columns = {"id": {"type": "string", "shape": [2]}, "label": {"type": "int64"}}
    job = tables.make_config(tmp_path / "*.parquet", source="parquet", columns=columns)
    source = sources.choose(job.data)
    (rows,) = source.read(source.plan("train")[0])
    found = profile.ColumnProfile()
    found.see(rows.batch.column("id"))
    assert found.values == 2 and found.lengths == {2: 1}
    good = validate.enforce(rows, source.data, "train")
    assert good.batch.column("id").to_pylist() == [[shown, shown]]


def test_long_lists(tmp_path):
    columns = {"id": {"type": "int64", "shape": [2]}, "label": {"type": "int64"}}
    table = pa.table({"id": pa.array([[1, 2]], pa.large_list(pa.int64())), "label": [0]})
    pq.write_table(table, tmp_path / "a.parquet")
    job = tables.make_config(tmp_path / "*.parquet", source="parquet", columns=columns)
    source = sources.choose(job.data)
    (rows,) = source.read(source.plan("train")[0])
    good = validate.enforce(rows, source.data, "train")
    assert good.batch.to_pylist() == [{"id": [1, 2], "label": 0}]


def test_no_rows(tmp_path):
    pq.write_table(_table(0), tmp_path / "a.parquet")
    assert _source(tmp_path).plan("train") == []


def test_files_that_cannot_be_used(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"id,name\n1,a\n")
    with pytest.raises(
        errors.DataError, match=r"a.parquet': not readable as Parquet: Parquet magic"
    ):
        _source(tmp_path).plan("train")
    pq.write_table(_table(3).drop(["size"]), path)
    with pytest.raises(
        errors.DataError, match="column 'size' of the config is missing; it has lab"
    ):
        _source(tmp_path).plan("train")
    path.unlink()
    with pytest.raises(errors.DataError, match="no file fits this pattern"):
        _source(tmp_path).plan("train")


def test_a_file_damaged_in_the_middle(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(_table(1000), path)
    source = _source(tmp_path)
    (chunk,) = source.plan("train")
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(errors.DataError, match=r"a.parquet': (not readable as|cannot be read)"):
        list(source.read(chunk))
