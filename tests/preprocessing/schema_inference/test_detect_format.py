"""Source, dialect and columns are recognised by what the files hold."""

from __future__ import annotations

import gzip
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import errors, storage
from preprocessing.schema_inference import detect_format, profile, write_config


def _sniff(tmp_path, content: bytes, name: str = "data") -> detect_format.Guess:
    (tmp_path / name).write_bytes(content)
    return detect_format.sniff(str(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "csv", "columns"),
    [
        (b"a,b\n1,2\n", {}, ["a", "b"]),
        (b"a;b;c\n1,5;2;3\n", {"delimiter": ";"}, ["a", "b", "c"]),
        (b"a\tb\n1\t2\n", {"delimiter": "\t"}, ["a", "b"]),
        (b"a|b\n1|x,y\n2|z\n", {"delimiter": "|"}, ["a", "b"]),
        (b"a\n1\n", {}, ["a"]),
        (b"1,x\n2,y\n", {"header": False}, ["column_1", "column_2"]),
        (b'"a, b",c\n"1\n",2\n', {}, ["a, b", "c"]),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", {}, ["a", "b"]),
        ("a,b\nä,1\n".encode("utf-16"), {"encoding": "utf-16"}, ["a", "b"]),
        ("a,b\nä,1\n".encode("cp1252"), {"encoding": "cp1252"}, ["a", "b"]),
        ("a,b\nä,1\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, ["a", "b"]),
        ("a,b\nä,1\n".encode("utf-32"), {"encoding": "utf-32"}, ["a", "b"]),
        ("имя,город\nИван,Москва\n".encode("cp1251"), {"encoding": "cp1251"}, ["имя", "город"]),
        (
            ("名前,都市\n" + "田中さん,東京\n" * 9).encode("cp932"),
            {"encoding": "cp932"},
            ["名前", "都市"],
        ),
        (b"id,note\n" + "1,é\n2,x\n".encode("cp1252") * 50, {"encoding": "cp1252"}, ["id", "note"]),
        ("a,b\nä,1\n".encode() + b"\xff,2\n", {}, ["a", "b"]),
        (b"\n\na,b\n1,2\n", {}, ["a", "b"]),
        (b"# id,b\n1,2\n", {}, ["# id", "b"]),
        (b"#tag\nx\n", {}, ["#tag"]),
        (b"ORCID,PAR1\n0000-0001,2\n", {}, ["ORCID", "PAR1"]),
        (b"PAR1,PAR2\n1,2\n", {}, ["PAR1", "PAR2"]),
        (b"a,\x0cz\x0b\r\nx,y\r\n", {}, ["a", "\x0cz\x0b"]),
        (b",0,1,2,y\n0,.5,.1,.2,a\n1,.4,.3,.2,b\n", {}, ["0", "1", "2", "y"]),
        (b"land,2019,2020,2021\nDE,8,9,7\n", {}, ["land", "2019", "2020", "2021"]),
        (b"1,2,3\n4,5,6\n", {"header": False}, ["column_1", "column_2", "column_3"]),
        (b"a, b\n1, x\n", {"trim": True}, ["a", "b"]),
        (b'"a, b", " c", "d"\n1, 2, "x, y"\n', {"trim": True}, ["a, b", "c", "d"]),
        (b"9, x\n8, z\n", {"header": False, "trim": True}, ["column_1", "column_2"]),
        (b"a,b\n  1,x\n 22,y\n333,z\n", {"trim": True}, ["a", "b"]),
        (b"a,b\n1, but\n2,x\n3,y\n", {}, ["a", "b"]),
    ],
)
def test_dialects(tmp_path, content, csv, columns):
    guess = _sniff(tmp_path, content)
    assert (guess.source, guess.csv, list(guess.kinds)) == ("csv", csv, columns)
    assert list(guess.data().columns) == columns


def test_packed(tmp_path):
    assert _sniff(tmp_path, gzip.compress(b"a,b\n1,2\n")).source == "csv"
    assert _sniff(tmp_path, gzip.compress(b'{"a": 1}\n')).source == "jsonl"
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("x.csv", "a,b\n1,2\n")
    assert list(detect_format.sniff(str(tmp_path / "x.zip")).kinds) == ["a", "b"]


def test_columns_without_a_name_of_their_own_are_left_out(tmp_path):
    guess = _sniff(tmp_path, b",a,b,b\n0,1,2,3\n")
    assert list(guess.kinds) == ["a"]
    assert guess.left_out == {
        "": "has no name; to use it, name it in the header",
        "b": "is there 2 times; to use them, give each another name",
    }


def test_a_value_of_a_megabyte_hides_nothing(tmp_path):
    content = b"a,b\n1,2\n" + b"x" * (3 << 20) + b",1\n"
    assert list(_sniff(tmp_path, content).kinds) == ["a", "b"]


def test_json_lines(tmp_path):
    rows = [
        {"i": 1, "f": 1, "s": "x", "l": [1, 2.5], "b": True, "o": {}, "n": None, "m": 1},
        {"i": 2, "f": 0.5, "s": None, "l": [3, 4], "late": 2**70, "m": "x", "r": [1]},
        {"r": [1, 2]},
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in rows) + "no json\n[1]\n"
    guess = _sniff(tmp_path, text.encode())
    assert guess.kinds == {
        "i": ("int64",),
        "f": ("float32",),
        "s": ("string",),
        "l": ("float32",),
        "b": ("int64",),
        "late": ("string",),
        "r": ("int64",),
    }
    assert guess.lists == {"r"} and guess.data().columns["r"].list
    assert guess.shapes["l"] == 2 and guess.data().columns["l"].shape == (2,)
    assert guess.left_out == {
        "o": "holds objects; make each of their members a column",
        "n": "has no values",
        "m": "holds int, string",
    }


def test_parquet(tmp_path):
    long = pa.array([[1, 2]], pa.large_list(pa.int64()))
    table = pa.table({"a": [1], "l": [[1, 2]], "long": long, "s": [{"x": 1}]})
    pq.write_table(table, tmp_path / "data")
    guess = detect_format.sniff(str(tmp_path / "data"))
    assert (guess.source, list(guess.kinds)) == ("parquet", ["a", "l", "long"])
    assert guess.left_out["s"].startswith("is struct")


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ("1 9223372036854775808", ("string",)),
        ('"x" 9223372036854775808', ("string",)),
        ("0.5 9223372036854775808", ("float32",)),
        ("9223372036854775808.0 1.0", ("string",)),
        ("1.0 2", ("float32",)),
        ("1.0 16777217", ("int64",)),
        ("16777217.0 null", ("int64",)),
        ("16777217.0 1e3", ("float32",)),
        ("[16777217.0] [1]", ("int64",)),
    ],
)
def test_whole_numbers_that_float32_would_make_others(tmp_path, values, kinds):
    lines = "".join(f'{{"a": {value}}}\n' for value in values.split())
    assert _sniff(tmp_path, lines.encode()).kinds == {"a": kinds}


def test_folders_and_patterns(tmp_path):
    (tmp_path / "part-1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "part-2.csv").write_text("a,b\n1,2\n")
    (tmp_path / "_SUCCESS").touch()
    assert detect_format.sniff(str(tmp_path)).pattern == str(tmp_path / "*.csv")
    assert detect_format.sniff(str(tmp_path / "part-*")).pattern == str(tmp_path / "part-*")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(
        errors.DataError, match=r"a folder of '.csv', '.txt'; give a pattern .*\*\.csv'$"
    ):
        detect_format.sniff(str(tmp_path))


def test_a_folder_without_files_is_reported_as_one(tmp_path):
    (tmp_path / ".hidden").touch()
    with pytest.raises(errors.DataError, match=r"': a folder without files to read$"):
        detect_format.sniff(str(tmp_path))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ["a/x.csv", "b/x.csv", "b/notes"],
            r"has folders in it; give a pattern .*/in/\*/\*\.csv'$",
        ),
        (["x.png", "b/c/y.png"], r"has folders in it; give a pattern of the files .*\.png'$"),
        (["a/_hidden"], r"a folder of folders, without files to read$"),
        (["x.csv", "README"], r"a folder of no ending, '\.csv'; give a pattern .*/in/\*\.csv'$"),
    ],
)
def test_a_folder_of_folders_is_reported_as_one(tmp_path, names, said):
    """And the pattern that is named has files."""
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("a,b\n1,2\n")
    with pytest.raises(errors.DataError, match=said) as found:
        detect_format.sniff(str(tmp_path / "in"))
    if "such as" in str(found.value):
        assert storage.glob(str(found.value).split("'")[-2])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            '{"a": 1, "b": 2,}',
            "has a comma before a closing bracket, which JSON has not; remove it",
        ),
        ('{"a": [1, 2,]},', "has a comma before a closing bracket, which JSON has not; remove it"),
        ('{"a": 1, "b": 2},', "has a comma behind the object; remove it from each line"),
        ("{'a': 1, 'b': None}", "is written as Python writes it, such as with single quotes;"),
        ('{"a": 1 "b": 2}', "cannot be read as JSON: expecting ',' delimiter at character 9"),
        ('{"a": ' + "[" * 100_000, "has too many brackets inside each other"),
    ],
)
def test_the_first_row_of_what_is_no_json_says_why(tmp_path, line, why):
    (tmp_path / "x.jsonl").write_text(f"\n{line}\n{line}\n")
    with pytest.raises(errors.DataError) as found:
        detect_format.sniff(str(tmp_path / "x.jsonl"))
    assert f"x.jsonl': row 1 is not JSON: it {why}" in str(found.value)


def test_files_that_are_empty_say_nothing(tmp_path):
    for number, content in enumerate((b"", b'{"a": 1}\n', b'{"b": 1}\n')):
        (tmp_path / f"{number}.jsonl").write_bytes(content)
    assert list(detect_format.sniff(str(tmp_path / "*.jsonl")).kinds) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "x.csv", "empty"),
        (b"\n \n", "x.csv", "empty"),
        (b'[{"a": 1}]', "x.json", "is one JSON array"),
        (b'[{"a": 1}]', "x.jsonl", "is one JSON array"),
        (b"sep=;\na;b\n1;2\n", "x.csv", "begins with 'sep=;', which is no row; remove that line"),
        (b"# by me\n# 2020\na,b\n1,2\n", "x.csv", "begins with '# by me', .*the first 2 lines"),
        (b"PAR1\0 but no more", "x", "not readable as Parquet"),
        ('{"a": 1}\n'.encode("utf-16"), "x.jsonl", "is JSON in UTF-16; source jsonl reads UTF-8"),
        (
            '{"a": "Müller"}\n{"a": "Köln"}\n'.encode("cp1252"),
            "x.jsonl",
            r"is JSON in CP1252 \('Müller', 'Köln'\); source .* \(iconv -f CP1252 -t UTF-8 mak",
        ),
        (b"a,b\n\x81,1\n", "x.csv", "is not UTF-8, and its encoding is in doubt"),
        (b'{"a": [true]}', "x.jsonl", "has no readable column: 'a' holds true and false"),
        (b'{"data": [{"a": 1}, {"a": 2}]}', "x.json", r"rows in 'data'; .*jq -c '.data\[\]'"),
        (b'[\n  {"a": 1}\n]', "x.txt", "is one JSON array"),
        (b'{\n  "a": 1\n}\n', "x.json", "objects of several lines each"),
        (b"a   bb  c\n1   2.5 x\n10  3   y\n", "x.txt", "has runs of spaces between values"),
        (b"  1   2.5\n 10  3  \n  5  7\n", "x.txt", "has runs of spaces between values"),
        (gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-20], "x.gz", "truncated"),
    ],
)
def test_what_cannot_be_used(tmp_path, content, name, message):
    with pytest.raises(errors.DataError, match=message):
        _sniff(tmp_path, content, name)


def test_nothing_there(tmp_path):
    with pytest.raises(errors.DataError, match="no such file"):
        detect_format.sniff(str(tmp_path / "absent.csv"))
    with pytest.raises(errors.DataError, match="no file fits"):
        detect_format.sniff(str(tmp_path / "*.csv"))


def test_nan_in_json_is_missing(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "b": "x", "c": 0.5}\n{"a": NaN, "b": NaN, "c": -Infinity}\n')
    guess = detect_format.sniff(str(path))
    assert guess.kinds == {"a": ("int64",), "b": ("string",), "c": ("float32",)}
    assert not guess.left_out


def test_words_are_no_columns(tmp_path):
    guess = _sniff(tmp_path, b"John  Smith\nJane  Doe\nMax  Roe\n", "x.txt")
    assert len(guess.kinds) == 1


def test_single_spaces_are_a_delimiter(tmp_path):
    guess = _sniff(tmp_path, b"a b\n1 2\n3 4\n5 x\n", "x.txt")
    assert guess.csv == {"delimiter": " "} and list(guess.kinds) == ["a", "b"]


def test_columns_of_one_name_are_left_out(tmp_path):
    path = str(tmp_path / "x.parquet")
    table = pa.table([pa.array([1, 2])] * 3, names=["a", "b", "a"])
    pq.write_table(table, path)
    guess = detect_format.sniff(path)
    assert guess.kinds == {"b": profile.KINDS}
    assert guess.left_out == {"a": "is there 2 times; to use them, give each another name"}


_POLISH = "".join(f"Łódź,{n}\nŚwidnica,1\nŻyrardów,2\nGdańsk,3\n" for n in range(50))


def test_letters_far_behind_the_beginning_tell_the_encoding(tmp_path):
    long = "city,y\n" + "Berlin,0\n" * 200_000
    (tmp_path / "a.csv").write_bytes((long + _POLISH).encode("cp1250"))
    guess, found = write_config.explore(str(tmp_path / "a.csv"))
    assert guess.csv == {"encoding": "cp1250"} and found.columns["city"].about.refused == 0
    assert guess.remarks[0].startswith("the text is not UTF-8 and taken for cp1250, which makes '")


def test_letters_of_a_later_file_tell_the_encoding(tmp_path):
    for name, rows in (("a", "Berlin,0\n" * 50), ("b", _POLISH)):
        (tmp_path / f"{name}.csv").write_bytes(f"city,y\n{rows}".encode("cp1250"))
    assert write_config.explore(str(tmp_path))[0].csv == {"encoding": "cp1250"}


def test_damage_far_behind_the_beginning_is_no_other_encoding(tmp_path):
    rows = b"city,y\n" + b"Berlin,0\n" * 900 + "Köln,1\n".encode() * 90 + b"\x81\xfe,2\n" * 5
    (tmp_path / "a.csv").write_bytes(rows)
    guess, found = write_config.explore(str(tmp_path / "a.csv"))
    assert guess.csv == {} and found.columns["city"].about.refused == 5
