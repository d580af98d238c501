"""What a label is taken for is said, and so is what looks like a slip in its classes."""

from __future__ import annotations

import random

import pytest
import yaml

from pipeline import errors
from preprocessing.schema_inference import write_config


def _proposed(folder, labels):
    rows = ["x,y", *(f"{n / 7:.3f},{label}" for n, label in enumerate(labels))]
    (folder / "t.csv").write_text("\n".join([*rows, ""]))
    return write_config.propose(str(folder / "t.csv"), str(folder / "t.yaml"), "y")


def _counts(rows=4000):
    """Returns numbers that are the rarer the larger they are."""
    drawn = random.Random(1)
    return [int(drawn.expovariate(0.15)) for _ in range(rows)]


def test_counts_are_amounts(tmp_path):
    labels = _counts()
    made = _proposed(tmp_path, labels)
    assert yaml.safe_load(made.text)["model"]["params"]["task"] == "regression"
    (said,) = made.remarks
    different = len(set(labels))
    assert said == (
        f"the label 'y' has {different} different whole numbers, and neighbours are about as "
        "frequent: taken for an amount. If they are classes, write label: {vocabulary: true}, "
        "vocabulary: {} in data.columns.y, and model.params.classes: "
        f"{different} in place of task, offset and scale, and remove eval"
    )


def test_ages_are_amounts(tmp_path):
    drawn = random.Random(1)
    made = _proposed(tmp_path, [round(drawn.gauss(40, 10)) for _ in range(4000)])
    assert yaml.safe_load(made.text)["model"]["params"]["task"] == "regression"


@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("rows", [600, 4000])
def test_numbers_that_are_about_as_frequent_are_classes(tmp_path, rows, first):
    drawn = random.Random(1)
    made = _proposed(tmp_path, [first + drawn.randrange(60) for _ in range(rows)])
    assert yaml.safe_load(made.text)["model"]["params"]["classes"] == 60
    (said,) = made.remarks
    assert said.startswith(
        "the label 'y' has 60 different whole numbers, and neighbours are not about as frequent: "
        "taken for classes. If they are an amount, write task: regression, offset: "
    )
    assert said.endswith("remove label and data.columns.y.allowed") == bool(first)


def test_classes_that_often_stand_for_no_value_are_named(tmp_path):
    absent = ("None", "null", "-", "?")
    labels = [str(n % 3 > 0) if n % 10 else absent[n // 10 % 4] for n in range(800)]
    (said,) = _proposed(tmp_path, labels).remarks
    assert said == (
        "the label 'y' has 6 classes: 'False', 'True', '-', …. Of these '-', '?', 'None', … "
        "often stand for no value. If so, leave them empty in the raw data and run make schema "
        "again: rows without a label are dropped"
    )
    (said,) = _proposed(tmp_path, [("low", "high", "none")[n % 3] for n in range(800)]).remarks
    assert said == (
        "the label 'y' has 3 classes: 'high', 'low', 'none'. Of these 'none' often stands for no "
        "value. If so, leave it empty in the raw data and run make schema again: rows without a "
        "label are dropped"
    )


def test_of_few_numbers_nothing_is_reported(tmp_path):
    assert _proposed(tmp_path, [n % 10 for n in range(400)]).remarks == ()


def test_the_words_lead_to_configs_that_are_valid(tmp_path):
    from pipeline.config import config_file

    made = yaml.safe_load(_proposed(tmp_path, _counts()).text)
    made["label"] = {"vocabulary": True}
    made["data"]["columns"]["y"]["vocabulary"] = {}
    params = made["model"]["params"]
    params["classes"] = 40
    for key in ("task", "offset", "scale"):
        del params[key]
    del made["eval"]
    config_file.validate(made, where="t.yaml")
    drawn = random.Random(1)
    made = yaml.safe_load(_proposed(tmp_path, [5 + drawn.randrange(60) for _ in range(900)]).text)
    params = made["model"]["params"]
    del params["classes"], made["label"], made["data"]["columns"]["y"]["allowed"]
    params |= {"task": "regression", "offset": 34.5, "scale": 17}
    made["eval"] = {"metric": "average_loss", "higher_is_better": False}
    config_file.validate(made, where="t.yaml")


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ([f"2020-{1 + n % 7:02}-{1 + n % 28:02}" for n in range(600)], "dates, such as '2020-01-0"),
        ([f"2020{1 + n % 7:02}{1 + n % 28:02}" for n in range(600)], "dates, such as '2020010"),
        (
            [f"2020-01-{1 + n % 28:02}" if n % 2 else f"{1 + n % 28}.1.2020" for n in range(600)],
            "dates, such as ",
        ),
        ([f"{n % 40}.5%" for n in range(600)], "numbers with a sign or unit, such as '0.5%'"),
        ([f"{n % 40} kg" for n in range(600)], "numbers with a sign or unit, such as '0 kg'"),
        ([f"${n % 40}.5" for n in range(600)], "numbers with a sign or unit, such as '$0.5'"),
    ],
)
def test_dates_and_numbers_with_a_unit_are_no_classes(tmp_path, labels, why):
    with pytest.raises(errors.UsageError) as raised:
        _proposed(tmp_path, labels)
    assert str(raised.value).startswith(f"LABEL=y: {why}")


def test_names_of_digits_and_letters_are_classes(tmp_path):
    made = _proposed(tmp_path, [f"{n % 9}{'abcdef'[n % 6]}" for n in range(900)])
    assert yaml.safe_load(made.text)["model"]["params"]["classes"] == 18
    made = _proposed(tmp_path, [("1st", "2nd", "3rd")[n % 3] for n in range(900)])
    assert yaml.safe_load(made.text)["model"]["params"]["classes"] == 3
    made = _proposed(tmp_path, [f"{n % 40}{'abcdef'[n % 6]}" for n in range(2400)])
    assert yaml.safe_load(made.text)["model"]["params"]["classes"] == 120


def test_classes_that_differ_in_case_or_spaces_are_named(tmp_path):
    labels = [("Yes", "no", "yes", "YES ", "No", "maybe")[n % 6] for n in range(600)]
    assert _proposed(tmp_path, labels).remarks == (
        "classes of the label 'y' differ in case or spaces only: 'YES ', 'Yes', 'yes'; 'No', 'no'. "
        "If they are the same, write them alike in the raw data",
    )


def test_a_class_of_one_row_is_named(tmp_path):
    labels = [*(n % 2 for n in range(600)), 300]
    (said,) = _proposed(tmp_path, labels).remarks
    assert said == (
        "1 of 3 classes of the label 'y' has one row of 601: '300'. No model can learn them; "
        "remove these rows if they are none, such as totals"
    )
    assert _proposed(tmp_path, labels[500:]).remarks == ()


@pytest.mark.parametrize(("every", "count"), [(2, "200 of 400 rows (50.0 %)"), (0, "")])
def test_rows_without_a_label_are_counted(tmp_path, every, count):
    labels = ["" if every and n % every else n % 7 / 3 for n in range(400)]
    said = (
        f"the label 'y' is missing in {count}: make preprocess drops these "
        "(data.columns.y.missing: drop). If missing means a value, such as 0 or no, write it in "
        "the raw data; else make predict predicts them"
    )
    assert _proposed(tmp_path, labels).remarks == ((said,) if every else ())


def test_few_rows_without_a_label_have_no_share(tmp_path):
    (said,) = _proposed(tmp_path, ["", *(n % 10 for n in range(1500))]).remarks
    assert said.startswith("the label 'y' is missing in 1 of 1,501 rows: make preprocess drops")


def test_texts_that_stand_for_no_label_are_said_once(tmp_path):
    labels = [("yes", "no", "NA")[n % 3] for n in range(600)]
    (said,) = _proposed(tmp_path, labels).remarks
    assert said.startswith("'NA' is taken for missing in 200 of 600 rows of 'y', the label, so")
    _, said = _proposed(tmp_path, [*labels, ""]).remarks
    assert said.startswith("the label 'y' is missing in 201 of 601 rows (33.4 %): make preprocess")


def test_dates_are_not_the_guess_if_there_is_another_column(tmp_path):
    rows = ["a,b", *(f"w{n},2020-01-{1 + n % 28:02}" for n in range(300))]
    (tmp_path / "t.csv").write_text("\n".join([*rows, ""]))
    assert write_config.propose(str(tmp_path / "t.csv"), str(tmp_path / "t.yaml")).label == "a"


@pytest.mark.parametrize(
    ("labels", "column", "section"),
    [
        (["1.0", "2.0"], {"type": "int64", "min": 0, "max": 3, "allowed": [1, 2]}, True),
        (["3.0", "4.0", ""], {"type": "int64", "min": 0, "max": 5, "allowed": [3, 4]}, True),
        (["1.0", "1", "2.0"], {"type": "int64", "min": 0, "max": 3, "allowed": [1, 2]}, True),
        (["0.0", "1.0"], {"type": "int64", "min": 0, "max": 1, "vocabulary": {}}, False),
        (["0.0", "1.0", "1", ""], {"type": "int64", "min": 0, "max": 1, "vocabulary": {}}, False),
    ],
)
def test_two_classes_that_are_written_as_floats_are_whole(tmp_path, labels, column, section):
    made = _proposed(tmp_path, [labels[n % len(labels)] for n in range(400)])
    tree = yaml.safe_load(made.text)
    missing = {"missing": "drop"} if "" in labels else {}
    assert tree["data"]["columns"]["y"] == column | missing
    assert tree.get("label") == ({"vocabulary": True} if section else None)
    assert tree["model"]["params"]["classes"] == 2
    assert [" is missing in " in said for said in made.remarks] == [True] * len(missing)


def test_some_classes_that_are_written_as_floats_are_whole(tmp_path):
    made = _proposed(tmp_path, [("1.0", "2.0", "5.0", "")[n % 4] for n in range(400)])
    tree = yaml.safe_load(made.text)
    assert tree["data"]["columns"]["y"]["allowed"] == [1, 2, 5]
    assert tree["model"]["params"]["classes"] == 3
    said, _ = made.remarks
    assert said.startswith(
        "the label 'y' has 3 different whole numbers, written like 1.0: taken for classes. If they "
        "are an amount, write task: regression, offset: "
    )


def test_what_a_threshold_makes_of_two_numbers_is_reported(tmp_path):
    made = _proposed(tmp_path, [("0.5", "1.5")[n % 2] for n in range(400)])
    assert "\nlabel: {threshold: 1.0}  # 0 stands for 0.5, 1 for 1.5\n" in made.text
    assert made.remarks == (
        "the label 'y' has two values: 0 stands for 0.5 in reports and predictions, 1 for 1.5",
    )


def test_amounts_that_are_written_as_floats_stay(tmp_path):
    made = _proposed(tmp_path, [f"{n}.0" for n in range(400)])
    tree = yaml.safe_load(made.text)
    assert tree["data"]["columns"]["y"]["type"] == "float32"
    assert tree["model"]["params"]["task"] == "regression"


def test_a_label_of_whole_numbers_that_float32_makes_equal_is_named(tmp_path):
    (said,) = _proposed(tmp_path, [2**60 + n for n in range(400)]).remarks
    assert said == (
        "'y' has 400 different numbers, of which float32 makes 1: they are far from zero and close "
        "to each other. Subtract what they have in common from the raw data, or change their unit; "
        "model.params.offset does not help, as labels are float32 by then"
    )
