"""Types, missing values and extremes of raw columns, as they come in any pieces."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from preprocessing import sources
from preprocessing.arrow import cast as convert
from preprocessing.schema_inference import profile
from tests.preprocessing import tables


def _found(*parts, kinds=profile.KINDS, **limits) -> profile.ColumnProfile:
    found = profile.ColumnProfile(kinds=kinds, **limits)
    for part in parts:
        found.see(part if isinstance(part, pa.Array) else pa.array(part, pa.binary()))
    found.resolve_empty(profile.TOKENS)
    return found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"1", b"-2", None], "int64"),
        ([b"1", b"2.5"], "float32"),
        ([b"1", b"1e3"], "float32"),
        ([b"1", b"x"], "string"),
        ([b"0123", b"77001"], "string"),
        ([b"0x1F"], "string"),
        ([b"0", b"0.5"], "float32"),
        ([b"9223372036854775808"], "string"),
        ([b"5", b"-9223372036854775809"], "string"),
        ([b"9223372036854775808.0", b"1.0"], "string"),
        ([b"0.5", b"9223372036854775808"], "float32"),
        ([b"9223372036854775808", b"1e3"], "float32"),
        ([b"1.0", b"2.0"], "float32"),
        ([b"1.0", b"16777217.0"], "int64"),
        ([b"16777217.0", b"16777217.5"], "float32"),
        ([b"1e99"], "string"),
        ([None], None),
        ([], None),
    ],
)
def test_the_narrowest_type_that_fits(values, kind):
    assert _found(values).kind == kind
    assert _found(*([value] for value in values)).kind == kind, "in pieces"


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1, 2], pa.int8()), "int64"),
        (pa.array([2**63], pa.uint64()), "string"),
        (pa.array([1.5, None]), "float32"),
        (pa.array([1.0, None]), "int64"),
        (pa.array([True, False]), "int64"),
        (pa.array(["a", "b"]).dictionary_encode(), "string"),
        (pa.array(["1", "-2"]), "int64"),
        (pa.array(["02134", "10001"]), "string"),
        (pa.array(["007", "8"], pa.large_string()), "string"),
        (pa.array([0], pa.timestamp("s")), "string"),
        (pa.array([0], pa.date32()), "string"),
        (pa.nulls(2), None),
    ],
)
def test_types_of_parquet(array, kind):
    assert _found(array).kind == kind


def test_whole_numbers_in_one_file_and_others_in_the_next():
    found = _found(pa.array([2**25 + 1, 3]), pa.array([1.5]))
    assert found.kind == "float32" and found.about.greatest == 2**25


def test_extremes_and_counts():
    found = _found([b"5", None, b"-7"], [b"5"])
    assert (found.missing, found.values, found.different) == (1, 3, {b"5": 2, b"-7": 1})
    assert (found.about.least, found.about.greatest) == (-7, 5)
    assert (found.about.mean, found.about.deviation) == (1, pytest.approx(math.sqrt(32)))
    words = _found([b"", "äöü".encode()])
    assert (words.about.least, words.about.greatest) == (0, 3), "lengths in characters"


def test_not_every_float_is_a_number():
    found = _found(pa.array([math.nan, math.inf, 1.0]))
    assert (found.about.not_finite, found.about.least, found.about.greatest) == (2, 1.0, 1.0)
    assert (found.about.finite, found.about.mean, found.about.deviation) == (1, 1.0, 0.0)


def test_text_that_is_none_is_refused():
    found = _found([b"a", b"\xff", b"b\0"], [b"\xff"])
    assert found.kind == "string" and found.about.refused == 3


def test_what_stands_for_no_value_among_numbers():
    assert _found([b"1", b"NULL", b"-"]).absent == {"NULL", "-"}
    assert _found([b"1", b"NULL", b"x"]).absent == set(), "text"
    assert _found([b"-", b"?"]).absent == set(), "no number at all"
    assert _found([b"1.5", b"nan"]).absent == {"nan"}


def test_lists():
    found = _found(pa.array([[1, 2], None, [3, 4]]))
    assert (found.kind, found.lengths, found.missing, found.holes) == ("int64", {2: 2}, 1, False)
    assert _found(pa.array([[1], [2, None]])).lengths == {1: 1, 2: 1}
    assert _found(pa.array([[1, None]])).holes


def test_counting_ends_at_a_limit():
    assert _found([b"1", b"2", b"3"], most=3).different is not None
    found = _found([b"1", b"2", b"3"], [b"4"], most=3)
    assert found.different is None and found.about.greatest == 4


def test_many_columns_share_what_is_counted(tmp_path):
    (tmp_path / "in.csv").write_text(tables.text(*tables.rows(50)))
    source = sources.choose(tables.make_config(tmp_path / "in.csv").data)
    kinds = dict.fromkeys(tables.COLUMNS, profile.KINDS)
    for in_all, counted in ((4 * 50, ["id", "name", "size", "label"]), (4 * 49, ["label"])):
        found = profile.survey(source, kinds, in_all=in_all, at_least=2).columns
        assert [name for name, column in found.items() if column.different] == counted
    none = profile.survey(source, kinds, in_all=0, at_least=2)
    assert len(none.columns["label"].different) == 2


def test_a_whole_table(tmp_path, capsys):
    (tmp_path / "in.csv").write_text(tables.text(*tables.rows(50), "50,a"))
    source = sources.choose(tables.make_config(tmp_path / "in.csv").data)
    kinds = dict.fromkeys(tables.COLUMNS, profile.KINDS)
    found = profile.survey(source, kinds)
    assert (found.rows, found.unreadable) == (50, {"columns": 1})
    assert [c.kind for c in found.columns.values()] == ["int64", "string", "float32", "int64"]


@pytest.mark.parametrize(
    "text", [lambda n: f"{n}.5", lambda n: f"word{n}zz"], ids=["fractions", "words"]
)
def test_what_a_column_is_takes_few_casts_whatever_its_values(text, monkeypatch):
    casts = []
    cast = convert.cast_all
    monkeypatch.setattr(convert, "cast_all", lambda *given: casts.append(1) or cast(*given))
    found = _found([text(n).encode() for n in range(1000)])
    assert found.kind in ("float32", "string") and len(casts) < 15


def test_a_plus_is_a_sign():
    found = profile.ColumnProfile()
    found.see(pa.array([b"+5", b"-3", b"0"]))
    assert found.kind == "int64" and (found.about.least, found.about.greatest) == (-3, 5)
