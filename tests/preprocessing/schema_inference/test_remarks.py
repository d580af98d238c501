"""What is said of raw data before a model is trained on it."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import errors
from preprocessing.schema_inference import write_config


def _said(folder, rows, label="y", name="t.csv"):
    (folder / name).write_text("\n".join([*rows, ""]))
    return write_config.propose(str(folder / name), str(folder / "t.yaml"), label).remarks


def _table(values, mark=","):
    return [f"a{mark}y", *(f"{value}{mark}{n % 2}" for n, value in enumerate(values))]


@pytest.mark.parametrize(
    ("odd", "share", "why"),
    [
        ({3: "abc"}, 0, "1 of 400 values cannot be read as float32: 'abc'"),
        ({3: "abc"}, 11, "38 of 400 values cannot be read as float32: 'abc', 'n/a'"),
        (dict.fromkeys(range(0, 400, 10), "abc"), 0, "40 of 400 values cannot be read as float32"),
        (dict.fromkeys(range(0, 400, 50), "1e400"), 0, "8 of 400 values cannot be read as float32"),
        (
            {n: f"x{n}" for n in range(0, 400, 10)},
            0,
            "most values are numbers, but not 'x0', 'x10', 'x100', …",
        ),
    ],
)
def test_texts_that_are_mostly_numbers_are_named(tmp_path, odd, share, why):
    values = [odd.get(n, f"{n / 7:.3f}") for n in range(400)]
    values = ["n/a" if share and n % share == 0 else value for n, value in enumerate(values)]
    (said,) = _said(tmp_path, _table(values))
    assert said.startswith(f"'a' is kept as text: {why}")
    assert said.endswith(". Correct them to make it a number")


@pytest.mark.parametrize("odd", [{3: "K1A 0B1"}, {n: f"K{n}A" for n in range(0, 400, 10)}])
@pytest.mark.parametrize("name", ["zip_code", "user_id"])
def test_identifiers_are_not_to_be_made_numbers(tmp_path, name, odd):
    values = [str(odd.get(n, 90_000 + n % 50 * 13)) for n in range(400)]
    said = _said(tmp_path, [f"{name},y", *(f"{value},{n % 2}" for n, value in enumerate(values))])
    assert not [one for one in said if "number" in one]


def test_a_label_gets_no_advice_about_the_steps_of_a_feature(tmp_path):
    values = [1_000_000_000_000 + n * 7_654_321 for n in range(400)]
    for name in ("y", "t"):
        rows = [f"a,{name}", *(f"{n % 7},{value}" for n, value in enumerate(values))]
        said = _said(tmp_path, rows, label=name)
        assert not [one for one in said if "1970" in one or "features" in one]


def test_texts_that_are_classes_are_not(tmp_path):
    assert _said(tmp_path, _table(["1", "2", "3", "3+"] * 100)) == ()
    assert _said(tmp_path, _table([f"word {n}" for n in range(400)])) == ()


def test_columns_with_two_decimal_marks_are_named(tmp_path):
    rows = ["a;b;y", *(f"{n},{n % 9};{n / 8:.2f};{n % 2}" for n in range(400))]
    (said,) = _said(tmp_path, rows)
    wrong = "'b' is kept as text: its numbers are not written as data.csv says, such as "
    assert said == f"{wrong}'0.00', '0.12', '0.25', …. Write all columns alike"


def test_numbers_that_float32_cannot_hold_are_named(tmp_path):
    (said,) = _said(tmp_path, _table([f"{n}.5e299" for n in range(400)]))
    wrong = "'a' is kept as text: numbers beyond 3.4e+38, where float32 ends, such as "
    assert said == f"{wrong}'0.5e299', '1.5e299', '10.5e299', …; write them in a larger unit"


@pytest.mark.parametrize(
    ("value", "mark", "said"),
    [
        (
            "7.125",
            ";",
            "'a': '7.125' is taken for 7.125; if 7125 is meant, data.csv must have "
            "decimal ',' and thousands '.', and the rules of the column must fit",
        ),
        (
            '"7,125"',
            ",",
            "'a': '7,125' is taken for 7125; if 7.125 is meant, data.csv must have "
            "decimal ',' and no thousands, and the rules of the column must fit",
        ),
        (
            "7,125",
            ";",
            "'a': '7,125' is taken for 7.125; if 7125 is meant, data.csv must have "
            "decimal '.' and thousands ',', and the rules of the column must fit",
        ),
    ],
)
def test_what_could_be_a_decimal_mark_or_thousands_is_reported(tmp_path, value, mark, said):
    assert _said(tmp_path, _table([value, "8", "9"] * 50, mark)) == (said,)
    clear = value.replace("7", "0")
    assert _said(tmp_path, _table([value, clear, "8"] * 50, mark)) == ()


def test_a_text_for_missing_that_may_be_a_class_is_counted(tmp_path):
    rows = [
        "land,y,n",
        *(
            f"{['NA', 'DE', 'FR'][n % 3]},{['NA', 'lo', 'hi', 'lo'][n % 4]},{n % 7 or 'NA'}"
            for n in range(300)
        ),
    ]
    then = "If it is a value, put it in quotes in the file, or write it otherwise"
    assert _said(tmp_path, rows) == (
        f"'NA' is taken for missing in 100 of 300 rows of 'land'. {then}",
        f"'NA' is taken for missing in 75 of 300 rows of 'y', the label, so these rows are "
        f"dropped. {then}",
    )
    assert _said(tmp_path, [row.replace("NA,", '"NA",') for row in rows]) == ()


def test_a_text_for_missing_in_many_columns_is_one_line(tmp_path):
    texts = ["None", "null", "NA", "x", "y"]
    names = ["a", "b", "c", "d", "e"]
    rows = [",".join(texts[(n + k) % 5] for k in range(5)) + f",{n % 2}" for n in range(300)]
    said = _said(tmp_path, [",".join([*names, "y"]), *rows])
    taken = [line for line in said if "is taken for missing" in line]
    assert [line for line in taken if line.startswith("'NA'")] == [
        "'NA' is taken for missing in 300 values of 5 columns: 'a', 'b', 'c', 'd', 'e'. If it is "
        "a value, put it in quotes in the file, or write it otherwise"
    ]
    assert len(taken) == len({line.split()[0] for line in taken})


def test_columns_that_are_left_out_are_named(tmp_path):
    assert _said(tmp_path, ["a,b,a,y", *["1,2,3,0", "2,3,4,1"] * 50]) == (
        "'a' is left out: it is there 2 times; to use them, give each another name",
    )
    rows = [json.dumps({"o": {}, "big": 2**63 + n, "y": n % 2}) for n in range(99)]
    assert _said(tmp_path, rows, name="t.jsonl") == (
        "'o' is left out: it holds objects; make each of their members a column",
    )
    rows = [json.dumps({f"c{n}": {} for n in range(15)} | {"y": n % 2}) for n in range(99)]
    *first, last = _said(tmp_path, rows, name="t.jsonl")
    assert len(first) == 10 and last == "5 more columns are left out; the config says why"


def test_numbers_that_are_not_finite_are_named(tmp_path):
    (said,) = _said(tmp_path, _table(["inf" if n % 50 == 2 else n / 8 for n in range(400)]))
    assert said == (
        "'a': 8 values are not finite, such as inf, of 400: no feature is made of it. "
        "Leave them empty, or write a number"
    )
    rows = ["a,y", *(f"{n % 7},{'inf' if n == 9 else n / 8}" for n in range(400))]
    (said,) = _said(tmp_path, rows)
    assert said.startswith("'y': 1 value is not finite, such as inf, of 400: make preprocess refu")


def test_numbers_with_a_unit_are_named(tmp_path):
    rows = _table([f"{n + 100} EUR" for n in range(400)])
    wanted = "numbers with a sign or unit, such as '100 EUR'"
    assert _said(tmp_path, rows) == (
        f"'a' is kept as text: {wanted}. Write them without to make it a number",
    )
    with pytest.raises(errors.UsageError, match=f"LABEL=a: {wanted}; write them without to"):
        _said(tmp_path, rows, label="a")


@pytest.mark.parametrize("values", [("1. Yes", "2. No"), ("1 Yes", "2 No"), ("0.Low", "1.Mid")])
def test_categories_with_a_number_in_front_are_no_amounts(tmp_path, values):
    assert _said(tmp_path, _table([values[n // 3 % 2] for n in range(400)])) == ()


@pytest.mark.parametrize("text", ["-", "None", "null", "n/a", "?"])
@pytest.mark.parametrize("unit", ["{}%", "{} kg", "${}"])
def test_numbers_with_a_unit_are_named_next_to_texts_for_missing(tmp_path, unit, text):
    rows = _table([unit.format(n + 100) if n % 20 else text for n in range(400)])
    wanted = f"numbers with a sign or unit, such as '{unit.format(101)}'"
    assert _said(tmp_path, rows) == (
        f"'a' is kept as text: {wanted}. Write them without to make it a number",
    )
    with pytest.raises(errors.UsageError, match=f"LABEL=a: {re.escape(wanted)}; write them"):
        _said(tmp_path, rows, label="a")


def test_a_place_that_cannot_be_written_to_is_that_of_out():
    with pytest.raises(errors.UsageError, match=r"Choose a place you can write to with OUT=\.$"):
        write_config.write("/proc/x.yaml", "")


def test_a_label_of_one_value_is_reported_as_useless(tmp_path):
    rows = ["a,y", *(f"{n},1" for n in range(99))]
    assert "the label 'y' is always '1': there is nothing to learn" in _said(tmp_path, rows)


def test_texts_of_thousands_of_characters_are_not_listed(tmp_path):
    rows = _table(["z" * 3000, "b"] * 50)
    _said(tmp_path, rows)
    made = write_config.propose(str(tmp_path / "t.csv"), str(tmp_path / "t.yaml"), "y")
    assert "zzz" not in made.text


def test_columns_of_which_no_feature_is_made_are_named_once(tmp_path):
    rows = [
        f"k{n},{n % 37}{n % 11}x{n % 7},{n},5,{n % 9}.5,{n % 4}.5,{n}@x.org,{n // 3},{n / 7}"
        + (f"e,{n % 2}" if n % 2 else f" kg,{n % 2}")
        for n in range(600)
    ]
    said = _said(tmp_path, ["id,odd,row,same,a.b,a/b,email,user,unit,y", *rows])
    assert [one for one in said if one.startswith("no feature")] == [
        "no feature is made of 'odd': its 596 different texts have fewer than 2 rows each on "
        "average",
        "no feature is made of 'row': each row has another number",
        "no feature is made of 'a/b': TensorFlow has one name for it and 'a.b': rename it in the "
        "data",
        "no feature is made of 'email': it looks like personal data",
        "no feature is made of 'user': 100% of the rows have an identifier of less than 5 rows",
    ]
    assert sum("'unit'" in one for one in said) == 1


def test_of_many_columns_without_a_feature_some_are_named(tmp_path):
    names = ",".join(f"c{n}" for n in range(14))
    rows = [",".join([f"w{n}"] * 14) + f",{n % 9},{n % 2}" for n in range(300)]
    said = _said(tmp_path, [f"{names},x,y", *rows])
    assert len(said) == 11
    assert said[-1] == "no feature is made of 4 more columns; the config has the reason for each"


def test_constant_columns_make_no_feature(tmp_path):
    path = tmp_path / "t.yaml"
    wrong = "no column makes a feature, so a model has nothing to learn from: "
    then = f". Add columns that vary to the data, or write features and a model in {path}"

    def nothing(names, *values):
        rows = [f"{names}y", *(f"{values[n % len(values)]}{n // 2 % 2}" for n in range(400)), ""]
        (tmp_path / "t.csv").write_text("\n".join(rows))
        made = write_config.propose(str(tmp_path / "t.csv"), str(path), "y")
        assert made.remarks == ()
        return made.nothing

    assert nothing("a,b,", "1.5,k,") == f"{wrong}'a' (always the same), 'b' (always the same){then}"
    assert nothing("a,", "-0.0,", "0.0,") == f"{wrong}'a' (always the same){then}"
    assert nothing("", "") == f"{wrong}only label and key are left{then}"
    said = nothing("".join(f"c{n}," for n in range(14)), "1," * 14)
    assert "'c9' (always the same) and 4 more. Add columns" in said and "c10" not in said


def test_whole_numbers_that_float32_makes_equal_are_named(tmp_path):
    def said(values):
        return _said(tmp_path, _table(values))

    (far,) = said([1_700_000_000 + n * 3 % 1000 for n in range(600)])
    assert far.startswith("'a' has 600 different numbers, of which float32 makes 9: they are far")
    assert far.endswith("Subtract what they have in common from the raw data, or change their unit")
    # Near zero, far apart, or not taken as numbers.
    assert said([n * 7 % 6000 for n in range(600)]) == ()
    assert said([1_700_000_000 + n * 7919**2 % 10**9 for n in range(600)]) == ()
    assert said([2**60 + n % 20 for n in range(600)]) == ()


def test_numbers_of_which_each_row_has_another_are_named(tmp_path):
    rows = ["id,order,y,x", *(f"{n},{n + 5},{n % 2},{n * 7 % 90 / 8}" for n in range(400))]
    assert _said(tmp_path, rows) == ("no feature is made of 'order': each row has another number",)


def test_codes_of_unequal_length_are_named(tmp_path):
    (said,) = _said(tmp_path, _table([f"00{n % 40}" if n % 9 else "7" for n in range(400)]))
    assert said == (
        "'a' is kept as text: digits with leading zeros, such as '001', of 1 to 4 characters. No "
        "rule of the config can tell if later files have lost the zeros, as spreadsheets lose them"
    )
    assert _said(tmp_path, _table([f"{n % 40:05}" for n in range(400)])) == ()


def test_a_sentinel_is_reported_once(tmp_path):
    (said,) = _said(tmp_path, _table([-999 if n == 7 else n / 7 for n in range(400)]))
    assert said.startswith("'a' has 1 of 400 values -999, apart from all others")


def test_large_identifiers_of_which_some_are_floats_are_named(tmp_path):
    ids = ["9.3e18" if n % 100 == 0 else 2**63 + n % 40 for n in range(400)]
    (said,) = _said(tmp_path, _table(ids))
    assert said.startswith("'a' is kept as text: whole numbers of more than 64 bits, of which ")
    assert said.endswith("but not '9.3e18'. Write all as the whole numbers they are")


def test_a_column_of_which_most_rows_are_numbers_is_named(tmp_path):
    values = [f"({n % 90})" if n % 3 == 0 else n % 89 for n in range(900)]
    (said,) = _said(tmp_path, _table(values))
    assert said.startswith("'a' is kept as text: most values are numbers, but not '(0)', '(12)', ")


def test_bytes_that_are_no_text_are_left_out(tmp_path):
    table = pa.table(
        {
            "bin": [bytes([n % 256, 255 - n % 256]) for n in range(400)],
            "word": [f"w{n % 7}".encode() for n in range(400)],
            "y": [n % 2 for n in range(400)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    made = write_config.propose(str(tmp_path / "t.parquet"), str(tmp_path / "t.yaml"), "y")
    assert made.remarks == ("'bin' is left out: it holds bytes that are not UTF-8 text",)
    assert not made.damage and "word: {type: string" in made.text
