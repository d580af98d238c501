"""Every value is the one that fastavro reads; rows with bad values and bad files are refused."""

from __future__ import annotations

import datetime
import decimal
import io

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from pipeline import errors
from preprocessing import sources
from preprocessing.rows import validate
from preprocessing.schema_inference import detect_format
from preprocessing.sources import base
from tests.preprocessing import tables

COLUMNS = {
    "name": {"type": "string", "missing": "allow"},
    "size": {"type": "float32", "missing": "allow"},
    "day": {"type": "string"},
    "color": {"type": "string"},
    "again": {"type": "string", "missing": "allow"},
    "price": {"type": "string"},
    "tags": {"type": "string", "list": True, "max_items": 4, "missing": "allow"},
    "seen": {"type": "int64", "list": True, "max_items": 4},
    "label": {"type": "int64", "min": 0, "max": 1},
}
_COLOR = {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}
_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
TYPES = {
    "label": "int",
    "extra": ["null", "string", "long"],
    "seen": {"type": "array", "items": "long"},
    "tags": ["null", {"type": "array", "items": "string"}],
    "day": {"type": "int", "logicalType": "date"},
    "color": _COLOR,
    "again": ["null", "Color"],
    "price": _PRICE,
    "size": ["double", "null"],
    "name": ["null", "string"],
}


def _schema(**others):
    fields = [{"name": name, "type": of} for name, of in {**TYPES, **others}.items()]
    return {"type": "record", "name": "row", "fields": fields}


def _rows(count):
    rng = np.random.default_rng(0)
    return [
        {
            "label": int(rng.integers(0, 2)),
            "extra": n if n % 2 else "x",
            "seen": rng.integers(0, 9, n % 5).tolist(),
            "tags": None if n % 7 == 0 else ["é"] * (n % 3),
            "day": datetime.date(2024, 6, 1 + n % 30),
            "color": ("RED", "BLUE")[n % 2],
            "again": None if n % 3 else "RED",
            "price": decimal.Decimal(n % 1000) / 100,
            "size": None if n % 11 == 0 else n / 2,
            "name": None if n == 3 else f"n{n}",
        }
        for n in range(count)
    ]


def _write(path, rows, schema=None, **settings):
    with path.open("wb") as file:
        fastavro.writer(file, schema or _schema(), rows, **settings)


def _source(path, columns=COLUMNS, sizes=base.SIZES):
    return sources.choose(tables.make_config(path, source="avro", columns=columns).data, sizes)


def _enforced(source):
    found = [rows for chunk in source.plan("train") for rows in source.read(chunk)]
    return [validate.enforce(rows, source.data, "train") for rows in found]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_rows_of_all_blocks(tmp_path, codec):
    rows = _rows(3000)
    _write(tmp_path / "a.avro", rows, codec=codec, sync_interval=4000)
    _write(tmp_path / "b.avro", rows[:5])
    _write(tmp_path / "c.avro", [])
    good = _enforced(_source(tmp_path / "*.avro", sizes=base.Sizes(read=20_000)))
    assert len(good) > 5
    assert not any(part.letters for part in good)
    found = pa.Table.from_batches([part.batch for part in good]).to_pydict()
    for name in ("name", "color", "again", "tags", "seen", "label"):
        assert found[name] == [row[name] for row in rows + rows[:5]]
    assert found["day"] == [str(row["day"]) for row in rows + rows[:5]]
    assert found["size"] == [row["size"] for row in rows + rows[:5]]
    assert [decimal.Decimal(x) for x in found["price"]] == [r["price"] for r in rows + rows[:5]]
    numbers = [n for part in good for n in part.numbers.tolist()]
    assert numbers == [*range(1, 3001), *range(1, 6)]


def test_rows_that_do_not_fit(tmp_path):
    rows = _rows(4)
    rows[1]["label"], rows[2]["name"], rows[3]["tags"] = 7, "SPOIL", ["a", "SPOIL"]
    _write(tmp_path / "a.avro", rows)
    raw = (tmp_path / "a.avro").read_bytes()
    (tmp_path / "a.avro").write_bytes(raw.replace(b"SPOIL", b"SP\xffIL"))
    [good] = _enforced(_source(tmp_path / "a.avro"))
    assert [(letter.row, letter.column) for letter in good.letters] == [
        (2, "label"),
        (3, "name"),
        (4, "tags"),
    ]


def test_a_config_is_proposed(tmp_path):
    _write(tmp_path / "a.avro", _rows(20))
    guess = detect_format.sniff(str(tmp_path / "a.avro"))
    assert guess.source == "avro"
    assert list(guess.left_out) == ["extra"]
    assert {"tags", "seen", "label", "again"} <= set(guess.kinds)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"extra": {"type": "string"}},
            r"column 'extra' is a record, a map, a union of several types, or a list of such; "
            "allowed are values and lists of values",
        ),
        ({"nme": {"type": "string"}}, r"column 'nme' of the config is missing \(did you mean"),
    ],
)
def test_columns_that_cannot_be_read(tmp_path, columns, message):
    _write(tmp_path / "a.avro", _rows(2))
    with pytest.raises(errors.DataError, match=message):
        _source(tmp_path / "a.avro", {**COLUMNS, **columns}).plan("train")


def test_a_file_without_records(tmp_path):
    _write(tmp_path / "a.avro", [1, 2], "int")
    with pytest.raises(errors.DataError, match=r"a\.avro': holds values that are not records"):
        _source(tmp_path / "a.avro").plan("train")


def test_broken_files_are_refused_in_one_line(tmp_path):
    """Whatever byte is wrong: the rows of the file, fewer of them, or one line that names it."""
    stream = io.BytesIO()
    fastavro.writer(stream, _schema(), _rows(40), codec="deflate", sync_interval=200)
    whole = stream.getvalue()
    rng = np.random.default_rng(0)
    path, refused = tmp_path / "a.avro", 0
    broken = [whole[: len(whole) // 2]]
    for place in rng.integers(0, len(whole), 100):
        changed = bytearray(whole)
        changed[place] ^= int(rng.integers(1, 256))
        broken.append(bytes(changed))
    for raw in broken:
        path.write_bytes(raw)
        try:
            source = _source(path)
            for chunk in source.plan("train"):
                list(source.read(chunk))
        except errors.DataError as error:
            assert "a.avro'" in str(error) and "\n" not in str(error)
            refused += 1
    assert refused > 60
