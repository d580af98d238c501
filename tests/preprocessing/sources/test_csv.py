"""CSV in every dress gives the same rows, and what is wrong is found where it is."""

from __future__ import annotations

import gzip

import hypothesis
import pytest
from hypothesis import strategies as st

from pipeline import errors
from preprocessing import sources
from preprocessing.rows import validate
from preprocessing.sources import base
from tests.preprocessing import tables

ROWS = [(b"0", b"a", b"1.5", b"0"), (b"1", None, b"2", b"1")]
TEXT = "id,name,size,label\n0,a,1.5,0\n1,NA,2,1\n"


def _read(folder, content: str | bytes | None = None, sizes=base.SIZES, **csv) -> list[base.Rows]:
    if content is not None:
        content = content.encode() if isinstance(content, str) else content
        (folder / "in.csv").write_bytes(content)
    source = sources.choose(tables.make_config(folder / "*.csv", csv=csv).data, sizes)
    return [rows for chunk in source.plan("train") for rows in source.read(chunk)]


def _tuples(found: list[base.Rows]) -> list[tuple]:
    return [tuple(row.values()) for rows in found for row in rows.batch.to_pylist()]


@pytest.mark.parametrize(
    ("content", "csv"),
    [
        (TEXT, {}),
        (TEXT.replace("\n", "\r\n"), {}),
        (TEXT.replace("\n", "\n\n"), {}),
        ("\n\n" + TEXT[:-1], {}),
        ("\ufeff" + TEXT, {}),
        (gzip.compress(TEXT.encode(), mtime=0), {}),
        (TEXT.encode("utf-16"), {"encoding": "utf-16"}),
        (TEXT.replace(",", "|"), {"delimiter": "|"}),
        (TEXT.replace(",", "\t"), {"delimiter": "\t", "quote": ""}),
        (TEXT.partition("\n")[2], {"header": False}),
        (TEXT.replace("NA", ""), {}),
        (TEXT.replace("NA", "?"), {"missing": ["?"]}),
        (TEXT.replace("a,1.5", '"a","1.5"'), {}),
        ("label,x,size,x,id,name\n0,,1.5,,0,a\n1,9,2,9,1,\n", {}),
        (' id, name ,"size" , label\n0,  "a" ,1.5, 0 \n  1, NA, 2 ,"1"\n', {"trim": True}),
    ],
    ids=range(15),
)
def test_every_dress(tmp_path, content, csv):
    found = _read(tmp_path, content, **csv)
    assert _tuples(found) == ROWS
    top = 1 if csv.get("header") is False else 2
    assert [n for rows in found for n in rows.numbers.tolist()] == [top, top + 1]


def test_quoted_values_may_hold_anything(tmp_path):
    content = 'id,name,size,label\n0,"a,\n""b"" NA",1,0\n1,"NA",2,1\n'
    assert [row[1] for row in _tuples(_read(tmp_path, content))] == [b'a,\n"b" NA', b"NA"]


def test_spaces_around_values_are_taken_away(tmp_path):
    content = 'id, name, size, label\n0, " a,\nb " , , 0\n1, c  d, 2, 1\n'
    found = _tuples(_read(tmp_path, content, trim=True))
    assert found == [(b"0", b" a,\nb ", None, b"0"), (b"1", b"c  d", b"2", b"1")]


def test_many_files_with_columns_in_another_order(tmp_path):
    (tmp_path / "b.csv").write_text("name,label,size,id\nNA,1,2,1\n")
    (tmp_path / "a.csv").write_text("id,name,size,label\n0,a,1.5,0\n")
    assert _tuples(_read(tmp_path)) == ROWS


def test_columns_may_be_called_by_numbers(tmp_path):
    (tmp_path / "in.csv").write_text("x,#0,#1,label\n7,8,9,0\n")
    columns = {"#0": {"type": "int64"}, "label": {"type": "int64"}}
    source = sources.choose(tables.make_config(tmp_path / "in.csv", columns).data)
    (rows,) = source.read(source.plan("train")[0])
    assert _tuples([rows]) == [(b"8", b"0")]


def test_chunks_are_cut_between_rows_and_know_their_numbers(tmp_path):
    lines = tables.rows(100)
    lines[33] = '33,"a\n\nb",1,0'
    content = tables.text(*lines)
    sizes = base.Sizes(64, 256)
    found = _read(tmp_path, content, sizes)
    chunks = sources.choose(tables.make_config(tmp_path / "*.csv").data, sizes).plan("train")
    assert len(chunks) > 5 and sum(chunk.rows for chunk in chunks) == 100
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert [int(row[0]) for row in _tuples(found)] == list(range(100))
    assert [n for rows in found for n in rows.numbers.tolist()] == list(range(2, 102))


@pytest.mark.parametrize("csv", [{}, {"encoding": "utf-8-sig"}, {"header": False}])
def test_a_file_with_a_byte_order_mark_is_cut_like_one_without(tmp_path, csv):
    text = tables.text(*tables.rows(80))
    text = text if csv.get("header", True) else text.partition("\n")[2]
    found = []
    for folder, content in ((tmp_path / "plain", text), (tmp_path / "mark", "\ufeff" + text)):
        folder.mkdir()
        (folder / "in.csv").write_text(content, "utf-8")
        data = tables.make_config(folder / "in.csv", csv=csv).data
        source = sources.choose(data, base.Sizes(chunk=640))
        chunks = source.plan("train")
        rows = [rows for chunk in chunks for rows in source.read(chunk)]
        found.append([
            [chunk.rows for chunk in chunks],
            [(each.numbers.tolist(), each.batch) for each in rows],
        ])  # fmt: skip
    plain, mark = found
    assert mark == plain
    counts = mark[0]
    assert len(counts) == 8 and sum(counts) == 80


def test_rows_of_other_widths_become_letters(tmp_path):
    content = tables.text("0,a,1,0", "1,b", "2,c,1,0,9", "", "3,d,1,1")
    (found,) = _read(tmp_path, content)
    assert [row[0] for row in _tuples([found])] == [b"0", b"3"]
    assert found.numbers.tolist() == [2, 5]
    assert [str(letter).partition(": ")[2] for letter in found.letters] == [
        "row 3: has 2 values for 4 columns: add what is missing, or remove the row",
        "row 4: has 5 values for 4 columns: put a value that has ',' in it in quotes, or set "
        "data.csv.delimiter",
    ]
    assert [(x.reason, x.value, x.column) for x in found.letters] == [
        ("columns", "1,b", None),
        ("columns", "2,c,1,0,9", None),
    ]
    (found,) = _read(tmp_path, content, quote="")
    assert found.letters[1].problem.endswith(": set data.csv.quote or data.csv.delimiter")


def test_rows_of_other_widths_that_are_no_text(tmp_path):
    content = tables.text("0,a,1,0").encode() + b"1,\xff\n2,\xfe,1,0\n"
    (found,) = _read(tmp_path, content)
    assert [row[1] for row in _tuples([found])] == [b"a", b"\xfe"]
    assert [letter.row for letter in found.letters] == [3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "in.csv': is empty; a header was expected"),
        ("\n\n", "in.csv': is empty; a header was expected"),
        (
            "id,nam,size,label\n",
            r"column 'name' of the config is missing \(did you mean 'nam'\?\); ",
        ),
        (
            "id,name,size,label,id\n",
            "column 'id' of the config is there 2 times; its header has id",
        ),
        (b"id,\xff,size,label\n", "its header cannot be read: it begins with b'id,"),
        (
            b"id,\xff,size,label\n",
            r", not UTF-8\. Set data\.csv\.encoding; make schema suggests",
        ),
        (TEXT.encode("utf-16"), r", the mark of utf-16\. Set data\.csv\.encoding to utf-16$"),
        (TEXT.encode("utf-32"), r", the mark of utf-32\. Set data\.csv\.encoding to utf-32$"),
        ('id,name,size,label\n0,"a,1,0\n', "row 1: a quote is opened and never closed"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, content, message):
    with pytest.raises(errors.DataError, match=message):
        _read(tmp_path, content)


def test_a_header_that_is_shown_is_cut(tmp_path):
    names = ["id", "x" * 500, "a\x01b", *(f"n{n}" for n in range(99))]
    with pytest.raises(errors.DataError) as refused:
        _read(tmp_path, ",".join(names) + "\n")
    shown = str(refused.value).partition("its header has ")[2]
    assert shown.startswith(f"id, {'x' * 60}…, a\\x01b, n0, ")
    assert shown.endswith(", n16 and 82 more")
    with pytest.raises(errors.DataError) as refused:
        _read(tmp_path, b"id,\xff" + b"\xfe" * 5000 + b"\n")
    assert len(str(refused.value)) < len(str(tmp_path)) + 220


def test_one_bad_file_among_many_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    (tmp_path / "b.csv").write_text("id,name,size\n")
    with pytest.raises(errors.DataError, match=r"b\.csv': column 'label' of the config is missing"):
        _read(tmp_path)


def test_a_header_alone_has_no_rows(tmp_path):
    assert _tuples(_read(tmp_path, "id,name,size,label\n")) == []


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    (tmp_path / "in.csv").write_text(TEXT)
    source = sources.choose(tables.make_config(tmp_path / "in.csv").data)
    (chunk,) = source.plan("train")
    (tmp_path / "in.csv").write_text(TEXT[:30])
    assert len(_tuples(list(source.read(chunk)))) < chunk.rows


_FIELD = st.sampled_from(
    [b"1", b"0", b"a", b'"', b'""', b"NA", b"\xff", b"\0", b'"a\nb"', b' "a,\nb" ', b" ", b"x" * 30]
)
_SEPARATOR = st.sampled_from([b",", b",", b",", b"\n", b"\r\n", b"\r", b"\n\n"])


@hypothesis.settings(max_examples=200)
@hypothesis.given(
    st.lists(st.tuples(_FIELD, _SEPARATOR), max_size=40), st.integers(1, 200), st.booleans()
)
def test_whatever_the_text_is_every_row_is_accounted_for(tmp_path, pieces, size, trim):
    (tmp_path / "in.csv").write_bytes(b"id,name,size,label\n" + b"".join(f + s for f, s in pieces))
    data = tables.make_config(tmp_path / "in.csv", csv={"trim": trim}).data
    source = sources.choose(data, base.Sizes(max(20, size // 2), size))
    try:
        chunks = source.plan("train")
    except errors.DataError as error:
        assert "a quote is opened and never closed" in str(error)
        return
    for chunk in chunks:
        found = list(source.read(chunk))
        good = [validate.enforce(rows, data, "train") for rows in found]
        assert sum(part.read for part in good) == chunk.rows
        numbers = [x.row for part in good for x in part.letters]
        numbers += [n for part in good for n in part.numbers.tolist()]
        first = chunk.details.first + 2
        assert sorted(numbers) == list(range(first, first + chunk.rows))


@pytest.mark.parametrize(
    ("content", "header", "names"),
    [
        ('\nlabel,x,"a b"\n1,2,3\n', True, ("label", "x", "a b")),
        ("1,2,3,4\n", False, ("id", "name", "size", "label")),
        ("1,2,3\n", False, ("id", "name", "size")),
        ("1,2\n", False, ("id", "name", "size", "label")),
    ],
)
def test_the_columns_that_a_file_says_it_has(tmp_path, content, header, names):
    (tmp_path / "in.csv").write_text(content)
    data = tables.make_config(tmp_path / "in.csv", csv={"header": header}).data
    source = sources.choose(data)
    assert source.read_names(source.files()[0]) == names


@pytest.mark.parametrize(("header", "wanted"), [(True, "a header was"), (False, "rows were")])
def test_an_empty_file_has_none(tmp_path, header, wanted):
    (tmp_path / "in.csv").write_text("\n\n")
    source = sources.choose(tables.make_config(tmp_path / "in.csv", csv={"header": header}).data)
    with pytest.raises(errors.DataError, match=rf"in\.csv': is empty; {wanted} expected"):
        source.read_names(source.files()[0])
