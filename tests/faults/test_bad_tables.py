"""Whatever is in the raw files: records, dead letters, or one line and the right exit code."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import errors
from pipeline.records import builds, shard_check
from pipeline.runs import run_folder
from preprocessing import sources
from preprocessing.build import job
from preprocessing.schema_inference import write_config
from tests.preprocessing import tables

GOOD = [row.encode() for row in tables.rows(20)]
HEADER = b"id,name,size,label"
LOOSE = settings(max_examples=25)


def _run(root: pathlib.Path, pattern: str, **data) -> tuple[int, list[dict]]:
    """Returns how many records there are, and the dead letters. Both add up to all rows."""
    loaded = tables.make_config(root / pattern, error_budget=1e9, **data)
    with contextlib.redirect_stdout(io.StringIO()):
        made = job.run(loaded, str(root))
    folder = pathlib.Path(builds.find_current(run_folder.records_folder(str(root), loaded.name)))
    letters = [
        json.loads(line)
        for path in folder.glob("dead_letter/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    shard_check.verify(str(folder), made, contents=True)
    planned = [chunk.rows for chunk in sources.choose(loaded.data).plan("train")]
    records = sum(split.records for split in made.splits.values())
    if None not in planned:
        assert records + len(letters) == sum(planned)
    return records, letters


@pytest.mark.parametrize(
    ("content", "bad"),
    [
        (b"\r\n".join([HEADER, *GOOD, b""]), []),
        (b"\r".join([HEADER, *GOOD]), []),
        (b"\xef\xbb\xbf" + b"\n".join([HEADER, *GOOD]), []),
        (b"\n".join([HEADER, *GOOD, b"20,a\0b,1,0"]), [("name", "encoding", "a\0b")]),
        (b"\n".join([HEADER, *GOOD, b"2\0,a,1,0"]), [("id", "type", "2\0")]),
        (b"\n".join([HEADER, *GOOD, b"20,\xff\xfe,1,0"]), [("name", "encoding", "\\xff\\xfe")]),
        (b"\n".join([HEADER, b"\xff,a", *GOOD]), [(None, "columns", "ÿ,a")]),
        (b"\n".join([HEADER, *GOOD, b"20,a,1"]), [(None, "columns", "20,a,1")]),
        (b"\n".join([HEADER, *GOOD, b"20,a,1,0,5"]), [(None, "columns", "20,a,1,0,5")]),
        (b"\n".join([HEADER, *GOOD, b",a,1,0"]), [("id", "missing", None)]),
        (b"\n\n".join([HEADER, *GOOD]) + b"\n\n\n", []),
        (gzip.compress(b"\n".join([HEADER, *GOOD, b"x,a,1,0"]), mtime=0), [("id", "type", "x")]),
    ],
)
def test_rows_that_are_bad_and_files_that_only_look_it(tmp_path, content, bad):
    (tmp_path / "in.csv").write_bytes(content)
    records, letters = _run(tmp_path, "in.csv")
    assert [(x["column"], x["reason"], x["value"]) for x in letters] == bad
    assert records == 20
    assert all(x["file"].endswith("in.csv") and x["row"] >= 2 for x in letters)


def _part(root, number: int, text: str) -> None:
    (root / f"part-{number}.csv").write_text(text)


@pytest.fixture
def parts(tmp_path):
    for number in range(3):
        _part(tmp_path, number, tables.text(*tables.rows(20, first=20 * number)))
    return tmp_path


def test_columns_in_another_order_in_one_of_many_files(parts):
    rows = [f"{i % 2},{i},n,1" for i in range(20, 40)]
    _part(parts, 1, tables.text(*rows, header="label,id,name,size"))
    assert _run(parts, "part-*.csv") == (60, [])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id,name,size", r"part-1.csv': column 'label' of the config is missing"),
        ("id,name,name,size,label", r"part-1.csv': column 'name' of the config is there 2 times"),
    ],
)
def test_a_column_missing_or_doubled_in_one_of_many_files(parts, header, message):
    _part(parts, 1, tables.text("1,a,1,0", header=header))
    with pytest.raises(errors.DataError, match=message):
        _run(parts, "part-*.csv")


def test_an_unreadable_file_in_the_middle(parts):
    """A file that even root cannot read: the memory of this process from address 0."""
    (parts / "part-1.csv").unlink()
    os.symlink("/proc/self/mem", parts / "part-1.csv")
    with pytest.raises(errors.DataError, match=r"part-1.csv': cannot be read: Input/output error"):
        _run(parts, "part-*.csv")


def test_an_empty_file_and_a_damaged_one_in_the_middle(parts):
    _part(parts, 1, "")
    with pytest.raises(errors.DataError, match=r"part-1.csv': is empty; a header was expected"):
        _run(parts, "part-*.csv")
    packed = gzip.compress(tables.text(*tables.rows(500)).encode())
    (parts / "part-1.csv").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(errors.DataError, match=r"part-1.csv': truncated"):
        _run(parts, "part-*.csv")


@pytest.mark.parametrize("pattern", ["absent-*.csv", "absent.csv"])
def test_no_files(tmp_path, pattern):
    with pytest.raises(errors.DataError, match=r"absent.*no (such )?file"):
        _run(tmp_path, pattern)


@pytest.mark.parametrize("name", ["pipe.csv", "pipe.jsonl"])
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    message = rf"{name}': cannot be read: it is not a regular file; write its content to one"
    with pytest.raises(errors.DataError, match=message):
        _run(tmp_path, name, source=name.rpartition(".")[2])
    with pytest.raises(errors.DataError, match=message):
        write_config.propose(str(tmp_path / name), str(tmp_path / "made.yaml"))


@pytest.mark.parametrize("kind", ["a named pipe", "a link to nothing"])
def test_what_a_pattern_finds_and_cannot_be_read_is_not_left_out(parts, kind):
    (parts / "part-1.csv").unlink()
    message = r"part-1.csv': no such file"
    if kind == "a named pipe":
        os.mkfifo(parts / "part-1.csv")
        message = r"part-1.csv': cannot be read: it is not a regular file"
    else:
        os.symlink(parts / "gone.csv", parts / "part-1.csv")
    (parts / "part-3.csv").mkdir()
    with pytest.raises(errors.DataError, match=message):
        _run(parts, "part-*.csv")
    with pytest.raises(errors.DataError, match=message):
        write_config.propose(str(parts / "part-*.csv"), str(parts / "made.yaml"))


def test_brackets_by_the_thousand_are_a_bad_row(tmp_path):
    rows = [json.dumps({"id": i, "name": "a", "size": 1.5, "label": i % 2}) for i in range(40)]
    (tmp_path / "in.jsonl").write_text("\n".join([*rows, "[" * 100_000, ""]))
    records, letters = _run(tmp_path, "in.jsonl", source="jsonl")
    assert (records, [letter["reason"] for letter in letters]) == (40, ["json"])
    made = write_config.propose(str(tmp_path / "in.jsonl"), str(tmp_path / "made.yaml"))
    assert made.seen == "4 columns of 40 rows"


def test_a_line_of_json_of_50_mb(tmp_path):
    line = json.dumps({"id": 1, "name": "x" * (50 << 20), "label": 0})
    (tmp_path / "in.jsonl").write_text(line)
    with pytest.raises(errors.DataError, match=r"in.jsonl': row 1 is longer than 16 MiB"):
        _run(tmp_path, "in.jsonl", source="jsonl")


def _accept(root: pathlib.Path, name: str, **data) -> None:
    """Anything but records and dead letters must be said in one line of ours."""
    try:
        _run(root, name, split={"eval": 0.0}, **data)
    except errors.DataError as error:
        assert "\n" not in str(error) and name in str(error)


_PIECES = st.sampled_from(
    [
        b"1",
        b"0",
        b"-7",
        b"1e9",
        b"NA",
        b"99999999999999999999",
        b"a",
        b" ",
        b"'",
        b'"',
        b'""',
        b",",
        b",",
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        "é".encode(),
        b"\x1f\x8b",
    ]
)


@pytest.mark.slow
@LOOSE
@given(
    pieces=st.lists(_PIECES, max_size=60),
    head=st.sampled_from([HEADER + b"\n", HEADER + b"\r\n", b"", b'"id",name,size,label\n']),
)
def test_any_csv(tmp_path, pieces, head):
    (tmp_path / "in.csv").write_bytes(head + b"".join(pieces))
    _accept(tmp_path, "in.csv")


@pytest.mark.slow
@LOOSE
@given(content=st.binary(max_size=300))
def test_any_bytes_as_csv(tmp_path, content):
    (tmp_path / "in.csv").write_bytes(content)
    _accept(tmp_path, "in.csv", csv={"header": False})


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just([1])
)
_LINES = st.one_of(
    st.dictionaries(st.sampled_from(["id", "name", "size", "label", "x"]), _VALUES).map(
        lambda row: json.dumps(row).encode()
    ),
    st.just(b'{"id": 1, "name": "a", "size": 1.5, "label": 0}'),
    st.binary(max_size=20),
    st.sampled_from([b"{", b"[]", b"null", b'{"id": 1} {"id": 2}', b'{"id": 1, "id": 2}', b"\xff"]),
)


@pytest.mark.slow
@LOOSE
@given(lines=st.lists(_LINES, max_size=15), end=st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_any_json_lines(tmp_path, lines, end):
    (tmp_path / "in.jsonl").write_bytes(end.join(lines))
    _accept(tmp_path, "in.jsonl", source="jsonl")
