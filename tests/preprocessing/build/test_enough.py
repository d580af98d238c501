"""Tables that are too small, or say nothing."""

from __future__ import annotations

import math

import pytest

from pipeline import errors
from pipeline.records import builds
from pipeline.runs import run_folder
from preprocessing.build import job
from tests.preprocessing import tables

CLASSES = {**tables.COLUMNS, "label": {"type": "string", "vocabulary": {}}}
NUMBERS = {**tables.COLUMNS, "label": {"type": "float32"}}
LISTS = {
    **tables.COLUMNS,
    "name": {"type": "string", "list": True, "max_items": 2, "missing": "allow"},
    "size": {"type": "float32", "list": True, "max_items": 2, "missing": "allow"},
}


def _run(root, lines, **options):
    root.mkdir(exist_ok=True)
    (root / "in.csv").write_text(tables.text(*lines))
    return job.run(tables.make_config(root / "in.csv", **options), str(root))


@pytest.mark.parametrize(
    ("count", "split", "message"),
    [
        (
            1,
            {"eval": 0.9, "test": 0.05},
            "in.csv': train is empty: 1 row is left .*train 0, eval 1, test 0",
        ),
        (2, {"eval": 0.01}, r"eval is empty: 2 rows are left after preprocessing \(train 2, eval"),
    ],
)
def test_a_split_without_records_is_no_build(tmp_path, count, split, message):
    with pytest.raises(errors.DataError, match=message):
        _run(tmp_path, tables.rows(count), split=split)
    assert builds.list_published(run_folder.records_folder(str(tmp_path), "table")) == []


def test_one_row_is_enough_where_no_split_is_held_out(tmp_path):
    assert _run(tmp_path, tables.rows(1), split={"eval": 0.0}).splits["train"].records == 1


def test_without_a_test_split_there_may_be_records(tmp_path):
    made = _run(tmp_path, tables.rows(20), split={"eval": 0.3, "test": 0.001})
    assert made.splits["test"].records == 0


def _warnings(capsys):
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if line.startswith("warning: ")]


@pytest.mark.parametrize(
    ("lines", "options", "warnings"),
    [
        (tables.rows(200), {}, []),
        (tables.rows(40), {}, ["40 records in all: too few to measure a model with"]),
        (
            [f"{n},n,1,1" for n in range(200)],
            {},
            [
                "label 'label' is 1 in all {train} rows of train: nothing can be learned of it. "
                "Add rows with other values, or name another label"
            ],
        ),
        (
            [f"{n},n,1,c{n}" for n in range(300)],
            {"columns": CLASSES},
            ["label 'label' has {train} classes in {train} rows of train: too few of each"],
        ),
        ([f"{n},n,1,{n}" for n in range(300)], {"columns": NUMBERS}, []),
        ([f"{n},n,1,{n * 6e16}" for n in range(300)], {"columns": NUMBERS}, []),
        (
            [f"{n},n,1,{n and -3e20 / n}" for n in range(300)],
            {"columns": NUMBERS},
            [
                "label 'label' has values up to 3e+20: squared errors are infinite from 1.84e+19 "
                "on, as float32 ends at 3.4e+38. Give it in a larger unit"
            ],
        ),
        ([f"{n},n,1,{n * 1e-18}" for n in range(300)], {"columns": NUMBERS}, []),
        (
            [f"{n},n,1,{n % 2 * 1e-30}" for n in range(300)],
            {"columns": NUMBERS},
            [
                "label 'label' deviates by 5e-31: squared errors below 1.08e-19 count as 0, as "
                "float32 begins at 1.2e-38. Give it in a smaller unit"
            ],
        ),
        (
            [f"{n},n,1,{10**9 + n}" for n in range(300)],
            {"columns": NUMBERS},
            [
                "label 'label' deviates by 88, but numbers up to 1e+09 are 64 apart in float32: "
                "a regression does not predict it more closely, nor does a model of your own that "
                "takes it as float32 learn it so. Subtract what all values have in common from the "
                "raw data"
            ],
        ),
        ([f"{n},n,1,{10**9 + 500 * n}" for n in range(300)], {"columns": NUMBERS}, []),
        ([f"{n},n,1,{10**6 + n}" for n in range(300)], {"columns": NUMBERS}, []),
        (
            [f"{n},n,{'' if n % 3 else 1},{n if n % 3 else ''}" for n in range(300)],
            {
                "columns": {
                    **tables.COLUMNS,
                    "size": {"type": "float32", "missing": "allow"},
                    "label": {"type": "float32", "missing": "drop"},
                }
            },
            ["column 'size' has no value in train: nothing is learned from its features"],
        ),
        (
            [f'{n},"","",{n % 2}' for n in range(300)],
            {"columns": LISTS},
            [
                "column 'name' has only empty lists in train: nothing is learned from its features",
                "column 'size' has only empty lists in train: nothing is learned from its features",
            ],
        ),
        (
            [f'{n},,"{"" if n % 9 else 1}",{n % 2}' for n in range(300)],
            {"columns": LISTS},
            ["column 'name' has no value in train: nothing is learned from its features"],
        ),
        (
            [f"{n},n,1," for n in range(300)],
            {"columns": {**tables.COLUMNS, "label": {"type": "int64", "missing": "allow"}}},
            ["label 'label' is missing in all rows of train: nothing can be learned of it"],
        ),
    ],
)
def test_what_is_likely_to_disappoint_is_a_warning(tmp_path, capsys, lines, options, warnings):
    made = _run(tmp_path, lines, **options)
    train = made.splits["train"].records
    assert _warnings(capsys) == [f"warning: {line.format(train=train)}" for line in warnings]


def test_a_held_out_split_of_one_label_is_a_warning(tmp_path, capsys):
    (tmp_path / "eval.csv").write_text(tables.text(*(f"{n},n,1,1" for n in range(7))))
    files = {"train": {"files": str(tmp_path / "in.csv")}}
    files["eval"] = {"files": str(tmp_path / "eval.csv")}
    _run(tmp_path, tables.rows(200), inputs=files)
    line = "label 'label' is 1 in all 7 rows of eval: it cannot show how good a model is"
    assert _warnings(capsys) == [f"warning: {line}"]


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ({"type": "string", "vocabulary": {}}, "a", "'a'"),
        ({"type": "float32"}, "0.1", "0.1 as float32"),
        ({"type": "int64", "sensitive": True}, "7", "the same"),
    ],
)
def test_a_label_that_is_always_the_same_is_named_at_each_start(
    tmp_path, capsys, column, value, shown
):
    lines = [f"{n},n,1,{value}" for n in range(200)]
    made = _run(tmp_path, lines, columns={**tables.COLUMNS, "label": column})
    line = (
        f"warning: label 'label' is {shown} in all {made.splits['train'].records} rows of train: "
        "nothing can be learned of it. Add rows with other values, or name another label"
    )
    assert _warnings(capsys) == [line]
    _run(tmp_path, lines, columns={**tables.COLUMNS, "label": column})
    assert _warnings(capsys) == [line], "the records are up to date"


@pytest.mark.parametrize("value", ["inf", "-Infinity"])
def test_a_label_that_is_not_finite_is_named(tmp_path, value):
    with pytest.raises(errors.DataError, match=r"row 7: column 'label' is '.*', not a finite"):
        _run(tmp_path, [*tables.rows(5), f"9,n,1,{value}", *tables.rows(50)], columns=NUMBERS)


def test_infinite_values_that_are_allowed_are_counted(tmp_path, capsys):
    columns = {**NUMBERS, "size": {"type": "float32", "min": 0}}
    lines = [*tables.rows(200), "998,n,inf,1", "999,n,inf,2"]
    with pytest.raises(errors.DataError, match="column 'size' is 'inf', not a finite number"):
        _run(tmp_path, lines, columns=columns)
    capsys.readouterr()
    columns["size"]["max"] = math.inf
    made = _run(tmp_path, lines, columns=columns)
    assert sum(split.records for split in made.splits.values()) == 202
    assert _warnings(capsys) == [
        "warning: column 'size' has 2 infinite values, which its limits allow: a feature of it "
        "needs a clip step"
    ]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("reject", r"row \d+: column 'label' has no value\. To leave out bad rows"),
        (
            "drop",
            r"none of 20 rows is left: 20 dropped, 0 bad\. Dropped were those with no value in "
            r"'label' \(data\.columns\.label\.missing: drop\)$",
        ),
    ],
)
def test_a_label_that_all_rows_lack_is_one_line(tmp_path, missing, message):
    columns = {**tables.COLUMNS, "label": {"type": "int64", "missing": missing}}
    with pytest.raises(errors.DataError, match=message) as raised:
        _run(tmp_path, [f"{n},n,1," for n in range(20)], columns=columns)
    assert raised.value.exit_code == 65 and "\n" not in str(raised.value)


def _of_two_labels(root, size):
    (root / "in.csv").write_text(tables.text(*(f"{n},n,{size},{n % 2}" for n in range(200))))
    made = tables.make_config(root / "in.csv")
    data = made.data.model_copy(update={"labels": ("label", "size")})
    return job.run(made.model_copy(update={"data": data}), str(root))


def test_one_of_several_labels_that_all_rows_lack_is_refused_by_name(tmp_path):
    message = "label 'size' is missing in all 1.. rows of train: nothing can be learned of it"
    with pytest.raises(errors.DataError, match=message) as raised:
        _of_two_labels(tmp_path, "")
    assert raised.value.exit_code == 65 and "\n" not in str(raised.value)


def test_one_of_several_labels_that_is_always_the_same_is_reported(tmp_path, capsys):
    made = _of_two_labels(tmp_path, "1.5")
    rows = made.splits["train"].records
    assert _warnings(capsys) == [
        f"warning: label 'size' is 1.5 as float32 in all {rows} rows of train: nothing can be "
        "learned of it. Add rows with other values, or name another label"
    ]


def _stood_in(root, capsys, column, *values):
    columns = {**tables.COLUMNS, "size": {"missing": "allow", **column}}
    lines = [f"{n},n,{values[n % len(values)]},{n % 2}" for n in range(300)]
    _run(root, lines, columns=columns)
    return _warnings(capsys)


def test_a_value_that_stands_for_missing_is_named(tmp_path, capsys):
    said = "a model cannot tell them apart. Set data.columns.size.default to what is no value"
    whole = {"type": "int64", "vocabulary": {}}
    (warning,) = _stood_in(tmp_path / "1", capsys, whole, "", -1, 5)
    start = "warning: column 'size': -1 stands for 100 missing values, and "
    assert warning == f"{start}in 100 rows it is a value: {said}"
    (warning,) = _stood_in(tmp_path / "2", capsys, {"type": "int64"}, "", -1, 5)
    assert warning == f"{start}it lies among the values: {said}"
    (warning,) = _stood_in(tmp_path / "3", capsys, {"type": "string"}, "", '""', "b", "c")
    start = "warning: column 'size': '' stands for 75 missing values, and "
    assert warning == f"{start}in 75 rows it is a value: {said}"


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ({"type": "int64"}, (-1, 5)),
        ({"type": "int64"}, ("", 0, 5)),
        ({"type": "int64", "vocabulary": {}}, ("", -2, 5)),
        ({"type": "int64", "default": -9}, ("", -1, 5)),
        ({"type": "float32"}, ("", -1, 5)),
        ({"type": "string"}, ("", "a", "b")),
    ],
)
def test_what_no_value_is_may_stand_for_missing(tmp_path, capsys, column, values):
    assert _stood_in(tmp_path, capsys, column, *values) == []


# Of train about 160 rows, half of them of either label.
SAMPLED = {"column": "label", "value": 0, "keep": 1e-9}


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (tables.rows(200), {}),
        (tables.rows(200), {"columns": {**tables.COLUMNS, "label": {"sensitive": True}}}),
        (tables.rows(200), {"columns": NUMBERS}),
        (
            [f"{n},n,1,c{n % 3}" for n in range(240)],
            {"columns": CLASSES, "sample": {**SAMPLED, "value": "c0"}},
        ),
    ],
)
def test_a_sample_that_leaves_nothing_of_a_class_is_refused(tmp_path, lines, options):
    columns = options.get("columns", tables.COLUMNS)
    columns = {**columns, "label": {"type": "int64", **columns["label"]}}
    options = {"sample": SAMPLED, "key": ["id"], **options, "columns": columns}
    shown = "one value" if columns["label"].get("sensitive") else options["sample"]["value"]
    message = (
        rf"^data\.sample\.keep is 1e-09, and none of the (\d+) rows of train with {shown} in label "
        r"was kept: nothing can be learned of them\. Use a larger keep, or take data\.sample "
        "out: (\\d+) rows are few$"
    )
    with pytest.raises(errors.DataError, match=message) as raised:
        _run(tmp_path, lines, **options)
    assert raised.value.exit_code == 65
    assert builds.list_published(run_folder.records_folder(str(tmp_path), "table")) == []


def test_a_sample_of_many_rows_is_told_how_many_to_keep(tmp_path):
    lines = [f"{n},n,1,{int(n % 100 == 0)}" for n in range(5000)]
    message = r"of them\. Use a larger keep: 0\.03 keeps about 1\d\d$"
    with pytest.raises(errors.DataError, match=message):
        _run(tmp_path, lines, sample=SAMPLED, key=["id"])


def test_a_sample_that_leaves_little_of_a_class_is_a_warning(tmp_path, capsys):
    made = _run(tmp_path, tables.rows(400), sample={**SAMPLED, "keep": 0.02}, key=["id"])
    kept = dict(made.statistics["train"].columns["label"].vocabulary)[0]
    assert 0 < kept < 10
    assert _warnings(capsys) == [
        f"warning: {kept} of the {kept + made.sampled.dropped} rows of train with 0 in label were "
        "kept, which are to stand for all: too few. Use a larger data.sample.keep"
    ]


@pytest.mark.parametrize(
    "sample", [{**SAMPLED, "keep": 0.5}, {"column": "name", "value": "n7", "keep": 1e-9}]
)
def test_a_sample_that_leaves_each_class_is_none(tmp_path, capsys, sample):
    _run(tmp_path, tables.rows(400), sample=sample, key=["id"])
    assert _warnings(capsys) == []
