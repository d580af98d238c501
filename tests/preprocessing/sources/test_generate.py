"""Tables that functions make, read back with pyarrow."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet
import pytest

from pipeline import config, errors
from preprocessing.sources import generate

calls = []


def numbers(first: int, rows: int, *, step: int = 1) -> pa.Table:
    """A table whose rows know their number."""
    calls.append((first, rows))
    return pa.table({"n": [step * (first + n) for n in range(rows)]})


def one_too_few(first: int, rows: int) -> pa.Table:
    return numbers(first, rows - 1)


def a_list(first: int, rows: int) -> list[int]:
    return [first] * rows


def breaks_late(first: int, rows: int) -> pa.Table:
    if first:
        raise OSError(28, "No space left on device")
    return numbers(first, rows)


def _wanted(to, function="numbers", **values) -> config.Generate:
    module = "" if ":" in function else f"{__name__}:"
    given = {"function": f"{module}{function}", "rows": 45_000, "to": str(to), **values}
    return config.Generate.model_validate(given)


def test_rows_are_made_in_parts_and_written_as_one_table(tmp_path, capsys):
    calls.clear()
    target = tmp_path / "new" / "n.parquet"
    generate.write(_wanted(target, arguments={"step": 3}))
    assert pyarrow.parquet.read_table(target)["n"].to_pylist() == [3 * n for n in range(45_000)]
    assert calls == [(0, 20_000), (20_000, 20_000), (40_000, 5_000)]
    assert f"{target}: 45,000 rows, " in capsys.readouterr().out
    assert os.listdir(target.parent) == ["n.parquet"]


def test_what_is_there_is_made_again_only_if_it_would_be_another_table(tmp_path, capsys):
    target = tmp_path / "n.parquet"
    generate.write(_wanted(target))
    calls.clear()
    generate.write(_wanted(target))
    assert "is already there; nothing to do" in capsys.readouterr().out
    assert not calls
    generate.write(_wanted(target, rows=7))
    assert pyarrow.parquet.read_metadata(target).num_rows == 7
    target.write_bytes(b"something else")
    generate.write(_wanted(target))
    assert pyarrow.parquet.read_metadata(target).num_rows == 45_000


def test_a_table_that_breaks_off_leaves_nothing(tmp_path):
    with pytest.raises(errors.RetryableError, match="No space left"):
        generate.write(_wanted(tmp_path / "n.parquet", "breaks_late"))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"function": "absent"}, r"^data\.generate\.function: cannot load '.*:absent': module "),
        ({"function": "no.such:thing"}, r"cannot load 'no.such:thing': No module named 'no'$"),
        ({"arguments": {"stp": 2}}, r"unexpected keyword argument 'stp'; see data.generate.arg"),
        ({"function": "one_too_few"}, r"must return a pyarrow.Table of 20000 rows, got 19999 row"),
        ({"function": "a_list"}, r"must return a pyarrow.Table of 20000 rows, got <class 'list'>$"),
        ({"to": "gs://b/n.parquet"}, r"^data.generate.to: 'gs://b/n.parquet': must be a .parquet"),
        ({"to": "n.csv"}, r"^data.generate.to: 'n.csv': must be a .parquet file on a local path"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path, values, text):
    with pytest.raises(errors.UsageError, match=text):
        generate.write(_wanted(**{"to": tmp_path / "n.parquet", **values}))
    assert not os.listdir(tmp_path)
