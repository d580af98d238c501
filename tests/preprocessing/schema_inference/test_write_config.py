"""Whatever the table, the config that is written loads, and accepts every row it was made from."""

from __future__ import annotations

import csv
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline import errors
from pipeline.config import config_file
from preprocessing.arrow import arrow_types
from preprocessing.build import job
from preprocessing.rows import rules
from preprocessing.schema_inference import profile, write_config
from tests.preprocessing.schema_inference.proposals import check, propose

SAMPLE = config_file.SHIPPED.parent / "data" / "flights" / "sample.csv.gz"


def test_flights(tmp_path):
    out = tmp_path / "first.yaml"
    guess, found = write_config.explore(str(SAMPLE))
    write_config.write(str(out), write_config.render(guess, found, name="first", path=str(out)))
    text = out.read_text()
    assert "origin: {type: string, allowed: [EWR, JFK, LGA]}" in text
    assert (
        "# 1,049 different, 2.7% missing, 1 to 2,358\n    dep_time: {type: int64, min: 0," in text
    )
    loaded = config_file.load(str(out))
    made = job.run(loaded, str(tmp_path))
    # Flights that never arrived have no delay, which is what is taken for the label.
    assert "  label: arr_delay  # a guess: its name is an outcome's; another: make schema" in text
    assert sum(split.records for split in made.splits.values()) == 4841
    assert made.splits["test"].records
    assert loaded.model.params["task"] == "regression"
    assert (loaded.model.params["offset"], loaded.model.params["scale"]) == (10.0, 43.0)
    assert {"carrier", "dep_delay", "time_hour_weekday"} <= set(loaded.features)


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("utf-8", "город номер итог Киев Москва да нет"),
        ("utf-16", "город номер итог Киев Москва да нет"),
        ("cp1251", "город номер итог Киев Москва да нет"),
        ("koi8-r", "город номер итог Киев Москва да нет"),
        ("gb18030", "城市 号码 结果 上海 北京 是 不是"),
        ("cp1252", "Straße Länge Größe Köln München möglich Übung"),
    ],
)
def test_text_in_another_encoding_is_read_rightly_and_with_a_remark(tmp_path, encoding, words):
    """Wrong words in records would be worse than a refusal, so a person sees some."""
    place, number, label, a, b, yes, no = words.split()
    rows = "".join(f"{a},{n},{yes}\n{b},{n},{no}\n" for n in range(40))
    (tmp_path / "t.csv").write_bytes(f"{place},{number},{label}\n{rows}".encode(encoding))
    found = write_config.propose(str(tmp_path / "t.csv"), str(tmp_path / "t.yaml"), label)
    write_config.write(str(tmp_path / "t.yaml"), found.text)
    loaded = config_file.load(str(tmp_path / "t.yaml"))
    assert loaded.data.columns[place].allowed == (a, b)
    check(loaded.data)
    guessed = not encoding.startswith("utf")
    assert any("is not UTF-8 and taken for" in remark for remark in found.remarks) == guessed
    assert ("  # encoding: a guess\n" in found.text) == guessed


_CELLS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(width=32).map(str),
    st.sampled_from(
        ["", "NA", "NULL", "-", "nan", "007", "2020-01-01", "true", "a,b", 'q"q', "\n"]
    ),
    st.text(max_size=8),
)
_NAMES = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4)
_LOOSE = settings(max_examples=60)


@_LOOSE
@given(data=st.data(), names=_NAMES, width=st.integers(0, 2))
def test_any_csv(tmp_path, data, names, width):
    column = st.one_of(_CELLS, st.integers(0, 3).map(str), st.sampled_from(["x", "y", ""]))
    kinds = [data.draw(st.sampled_from([_CELLS, column])) for _ in names]
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=12))
    path = tmp_path / "t.csv"
    with open(path, "w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        writer = csv.writer(file, quoting=width)
        writer.writerows([names, *rows])
    _accept(path)


def test_a_label_of_dates_may_have_empty_texts_in_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,day\n1,2020-01-01\n2,""\n3,2020-01-01\n4,2020-01-01\n')
    out = propose(path)
    assert out.data.label == "day"
    assert out.data.columns["day"].missing == "drop"
    check(out.data)


def test_without_a_header_a_column_without_values_keeps_its_place(tmp_path):
    path = tmp_path / "t"
    path.write_text("\t0\n\t7\n")
    out = propose(path)
    check(out.data)
    assert list(out.data.columns) == ["column_1", "column_2"]


@_LOOSE
@example(content=b"\t0")
@example(content=b"\0\0\x08")
@example(content=b"\0\0\x08\1")
@example(content=b"PAR1")
@example(content=b"ORC")
@example(content=b"Obj\x01")
@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    _accept(tmp_path / "t")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@_LOOSE
@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "é"]), _JSON | st.integers(0, 9)), min_size=1
    )
)
def test_any_json_lines(tmp_path, rows):
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    _accept(tmp_path / "t.jsonl")


def _accept(path: pathlib.Path) -> None:
    """The config, with the budget it names, accepts the rows; or the data are refused in a line."""
    try:
        propose(path)
    except errors.PipelineError as error:
        assert "\n" not in str(error)
        assert isinstance(error, errors.DataError) or "are the same argument" in str(error)
        return
    made = path.parent / "made.yaml"
    made.write_text(made.read_text().replace("\n  # error_budget: ", "\n  error_budget: "))
    try:
        check(config_file.load(str(made)).data)
    except errors.DataError as error:
        # Rows without the guessed label are dropped, which may be all of those that are readable.
        dropped = "none of" in str(error) and " dropped" in str(error)
        # A guessed label may be nan or infinite.
        assert dropped or str(error).partition(". They")[0].endswith(" finite")


def test_parquet(tmp_path):
    table = pa.table(
        {
            "id": pa.array(range(40)),
            "when": pa.array(range(40), pa.timestamp("s")),
            "pair": [[i, i + 0.5] for i in range(40)],
            "flag": [i % 2 == 0 for i in range(40)],
            "price": [None if i == 3 else i * 0.25 for i in range(40)],
            "label": ["yes" if i % 3 else "no" for i in range(40)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    proposed = propose(tmp_path / "t.parquet")
    kinds = {name: column.type for name, column in proposed.data.columns.items()}
    assert kinds["when"] == "string" and kinds["flag"] == "int64" and kinds["price"] == "float32"
    assert proposed.data.columns["pair"].shape == (2,)
    assert (proposed.data.label, proposed.data.key) == ("label", ("id",))
    assert proposed.label.vocabulary and proposed.model.params["classes"] == 2
    check(proposed.data)


def test_bad_rows_are_reported_and_not_allowed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,\xc3\xa4\n" * 98 + b"1\n2,\xff\n")
    proposed = propose(path)
    assert proposed.data.error_budget == 0
    text = (tmp_path / "made.yaml").read_text()
    damage = "2 of 100 rows are bad: 1 x columns; 1 x b encoding"
    assert f"  # error_budget: 0.02  # {damage}\n" in text
    found = write_config.propose(str(path), str(tmp_path / "again.yaml"))
    assert found.damage == damage
    assert found.fix == (
        f"fix the data ('{path}': row 100: has 1 value for 2 columns: add what is missing, or "
        "remove the row), set data.csv.encoding"
    )


def test_other_texts_for_no_value(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1;x\nNULL;y\n3;x\n")
    data = propose(path).data
    assert data.csv.missing == ("", "NA", "NULL") and data.csv.delimiter == ";"
    assert data.columns["a"].missing == "allow" and data.columns["a"].type == "int64"


def test_files_of_other_columns_are_compared_with_the_first(tmp_path):
    for name, header in (("a", "x,b,y"), ("b", "x,c,y")):
        (tmp_path / f"{name}.csv").write_text(header + "\n1,2,3\n2,3,4\n")
    said = (
        r"b\.csv': column 'b' of '.*a\.csv', the first file, is missing; its header has x, c, y\. G"
    )
    with pytest.raises(errors.DataError, match=said):
        write_config.propose(str(tmp_path), str(tmp_path / "made.yaml"))


def test_a_label_that_only_other_files_have_is_said_to_be_there(tmp_path):
    headers = {"a": "date,temp", "b": "date,trips", "c": "date,trips"}
    for name, header in headers.items():
        (tmp_path / f"us_{name}.csv").write_text(header + "\n1,2\n2,3\n")
    with pytest.raises(errors.UsageError) as raised:
        write_config.propose(f"{tmp_path}/us_*.csv", str(tmp_path / "made.yaml"), "trips")
    assert str(raised.value) == (
        "LABEL=trips: no such column; there are date, temp. The files differ: "
        f"'{tmp_path}/us_a.csv' has date, temp; '{tmp_path}/us_b.csv' and 1 more have date, "
        "trips. Give a pattern of files that have the same columns"
    )


def test_a_wrong_label_of_equal_files_says_nothing_of_them(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n2,3\n")
    with pytest.raises(errors.UsageError, match=r"LABEL=z: no such column; there are x, y$"):
        write_config.propose(str(tmp_path), str(tmp_path / "made.yaml"), "z")


def test_columns_that_the_first_file_lacks_are_named(tmp_path):
    for name, header in (("a", "x,y"), ("b", "y,x"), ("c", "x,y,z")):
        rows = "".join(f"{n},{n % 2}{',7' * header.count('z')}\n" for n in range(30))
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{rows}")
    made = write_config.propose(f"{tmp_path}/*.csv", str(tmp_path / "made.yaml"), "y")
    assert (
        f"'{tmp_path}/c.csv' has columns that '{tmp_path}/a.csv', the first file, lacks, so they "
        "are left out: z. Give a pattern of files that have the same columns"
    ) in made.remarks
    assert not any("b.csv" in said for said in made.remarks)


def test_an_empty_folder_is_reported_as_one(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.DataError, match=r"empty': a folder without files to read$"):
        write_config.propose(str(tmp_path / "empty"), str(tmp_path / "made.yaml"))


def test_a_header_may_end_as_its_rows_do(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y,\n" + "1,2,\n2,4,\n" * 9)
    assert list(propose(path).data.columns) == ["a", "y"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n", "no rows"),
        ("a,b\n,\n,NA\n", "no column has values"),
        (
            "a,b\n1\n2\n",
            "no rows but 2 unreadable ones; row 2 has 1 value for 2 columns: add what is missing, "
            "or remove the row",
        ),
        (
            "a,y\nr1,1,2\nr2,1,2\n",
            "row 2 has 3 values for 2 columns: put a value that has ',' in it in quotes, or "
            r"set data\.csv\.delimiter\. If the first is the name of the row, as R writes it, give",
        ),
        (
            "a;y\n1;2;\n1;2;\n",
            "row 2 has 3 values for 2 columns, the last of them empty: if all rows end with ';', "
            "end the header with it, too",
        ),
    ],
)
def test_nothing_to_make_a_config_of(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(errors.DataError, match=message):
        propose(tmp_path / "t.csv")


def test_input_that_no_later_command_could_read_is_refused(tmp_path):
    with pytest.raises(
        errors.UsageError, match=r"^DATA=/dev/stdin: exists only while this command runs"
    ):
        write_config.propose("/dev/stdin", str(tmp_path / "a.yaml"))


def test_lines_above_the_header_are_thought_of(tmp_path):
    (tmp_path / "a.csv").write_text("Report of sales\n\na,b,y\n1,2,3\n")
    with pytest.raises(errors.UsageError, match=r"^LABEL=y: .*it has lines above its header, or a"):
        write_config.propose(str(tmp_path / "a.csv"), str(tmp_path / "a.yaml"), "y")


def test_numbers_with_a_decimal_comma(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Preis €;Größe\n" + "".join(f"1.{i:03d},5;{i}\n" for i in range(99)))
    proposed = propose(path)
    assert (proposed.data.csv.decimal, proposed.data.csv.thousands) == (",", ".")
    price = proposed.data.columns["Preis €"]
    assert (price.type, price.min, price.max) == ("float32", 0.0, 1200.0)
    check(proposed.data)


def test_spaces_behind_commas(tmp_path):
    """As the census of UCI is written, which everybody tries first."""
    rows = [f"{i}, {'?P'[i % 9 > 0]}, {i}.5, {('<=50K', '>50K')[i % 2]}\n" for i in range(99)]
    (tmp_path / "adult.data").write_text("".join(rows) + "\n")
    proposed = propose(tmp_path / "adult.data")
    assert (proposed.data.csv.trim, proposed.data.csv.header) == (True, False)
    types = [column.type for column in proposed.data.columns.values()]
    assert types == ["int64", "string", "float32", "string"]
    assert proposed.data.columns["column_4"].allowed == ("<=50K", ">50K")
    check(proposed.data)


def _rendered(tmp_path, text, label=""):
    path = tmp_path / "a.csv"
    path.write_text(text)
    guess, found = write_config.explore(str(path), label)
    return write_config.render(guess, found, name="a", path=str(tmp_path / "a.yaml"), chosen=label)


def test_rules_let_the_rows_of_tomorrow_pass_but_not_damage(tmp_path):
    start = 1700000000
    rows = [f"{n},{start + 3600 * n},{n % 9},{n % 7 + 0.5},{n * 3.7 % 40:.2f}" for n in range(200)]
    made = _rendered(tmp_path, "\n".join(["order_id,created_at,size,price,y", *rows]), label="y")
    (tmp_path / "a.yaml").write_text(made)
    columns = config_file.load(str(tmp_path / "a.yaml")).data.columns
    assert columns["order_id"].max is columns["created_at"].max is None

    def broken(name: str, value: float) -> list[str]:
        array = pa.array([value], arrow_types.arrow_type(columns[name]))
        return [reason for reason, bad in rules.find_broken(array, columns[name]) if bad.any()]

    assert not broken("order_id", 201) and not broken("created_at", start + 10**6)
    assert not broken("size", 9) and not broken("price", 7.25) and not broken("y", 41.0)
    assert broken("size", 999) == broken("price", -1.0) == broken("y", -1.0) == ["range"]


@pytest.mark.parametrize("absent", profile.TOKENS)
def test_the_usual_texts_for_missing_among_numbers_and_dates(tmp_path, absent):
    rows = [f"{n + 0.5},{n},{n % 12 + 1}/{n % 28 + 1}/2020,{n % 2}" for n in range(50)]
    text = "\n".join(["a,b,c,y", *rows, f"{absent},{absent},{absent},1", "NA,,NA,0"])
    made = _rendered(tmp_path, text)
    assert made.count(f"{absent!r}: taken for missing") == 3, made
    assert "\nname: a\n" in made
    assert "a: {type: float32, min: 0.0, max: 99.0, missing: allow}" in made
    assert "b: {type: int64, min: 0, max: 98, missing: allow}" in made
    assert "{date: {part: month, form: m/d/y}}" in made


def test_the_same_texts_in_text_columns_are_values(tmp_path):
    text = "\n".join(["kind,n", *("None,1", "Low,2", "High,3") * 20])
    made = _rendered(tmp_path, text)
    assert "kind: {type: string, allowed: [High, Low, None]}" in made


def test_a_class_of_the_label_stands_for_no_value_nowhere(tmp_path):
    text = "\n".join(["risk,n", *("None,1", "Low,None", "High,3", "High,4") * 20])
    assert "allowed: [High, Low, None]" in _rendered(tmp_path, text, "risk")
