"""The label of a config that is written, and its classes."""

from __future__ import annotations

import pytest
import yaml

from pipeline import config, errors
from preprocessing.schema_inference import write_config
from tests.preprocessing.schema_inference.proposals import propose


@pytest.mark.parametrize(
    ("classes", "listed"), [(("b", "a"), ("a", "b")), (("30", "4", "-1"), (-1, 4, 30))]
)
def test_classes_are_listed_lest_train_lacks_one(tmp_path, classes, listed):
    path = tmp_path / "t.csv"
    labels = [*classes, *[classes[0]] * 60]
    path.write_text("x,label\n" + "".join(f"{i / 7},{text}\n" for i, text in enumerate(labels)))
    proposed = propose(path)
    label = proposed.data.columns["label"]
    assert (label.allowed, label.vocabulary) == (listed, None)
    assert proposed.label.vocabulary and proposed.model.params["classes"] == len(classes)


@pytest.mark.parametrize("classes", [150, 1100])
def test_texts_of_a_label_are_classes_however_many(tmp_path, classes):
    path = tmp_path / "t.csv"
    path.write_text("x,label\n" + "".join(f"{i / 7},c{i % classes}\n" for i in range(2200)))
    proposed = propose(path)
    label = proposed.data.columns["label"]
    assert label.vocabulary == (config.VocabularyRules() if classes > 1000 else None)
    assert len(label.allowed) == (0 if classes > 1000 else classes)
    assert proposed.model.params["classes"] == classes


def test_the_label_can_be_chosen(tmp_path):
    path, out = tmp_path / "t.csv", str(tmp_path / "made.yaml")
    path.write_text("id,a,b,hole\n" + "".join(f"{i},{i % 3},{i / 7},\n" for i in range(60)))
    assert (
        "label: a  # a guess: the last of few values; another:"
        in write_config.propose(str(path), out).text
    )
    text = write_config.propose(str(path), out, "b").text
    assert "label: b  # chosen by LABEL=" in text and "task: regression" in text
    assert "key" not in yaml.safe_load(write_config.propose(str(path), out, "id").text)["data"]
    for wrong, why in (
        ("c", r"LABEL=c: no such column.*; there are id, a, b"),
        ("hole", "LABEL=hole: it has no values; there are id, a, b"),
    ):
        with pytest.raises(errors.UsageError, match=why):
            write_config.propose(str(path), out, wrong)


@pytest.mark.parametrize(("rows", "refused"), [(500, True), (599, True), (600, False)])
def test_a_text_label_needs_two_rows_a_class_on_average(tmp_path, rows, refused):
    """Of 300 classes in 500 rows most occur twice."""
    path, out = tmp_path / "t.csv", str(tmp_path / "made.yaml")
    lines = [f"{n / 7},c{n % 300}" for n in range(rows)] + ["1.5,"] * 7
    path.write_text("\n".join(["x,name", *lines, ""]))
    if not refused:
        assert "classes: 300," in write_config.propose(str(path), out, "name").text
        return
    with pytest.raises(errors.UsageError) as caught:
        write_config.propose(str(path), out, "name")
    assert str(caught.value) == (
        f"LABEL=name: 300 different texts in {rows} rows: fewer than 2 rows each on average, too "
        "few to learn from; choose a column with more rows for each value, or numbers"
    )


def test_a_label_of_which_nothing_can_be_learnt_is_refused(tmp_path):
    path, out = tmp_path / "t.csv", str(tmp_path / "made.yaml")
    rows = "".join(f"{i / 7},Airport {i // 2 * 2 if i < 9 else i},{i}\n" for i in range(60))
    path.write_text("lat,name,rank\n" + rows)
    with pytest.raises(
        errors.UsageError, match=r"^LABEL=name: 56 different texts in 60 rows: fewer than 2 rows"
    ):
        write_config.propose(str(path), out, "name")
    text = write_config.propose(str(path), out, "rank").text
    assert "task: regression" in text and "allowed" not in text


def test_a_wrong_label_is_refused_before_the_table_is_read_and_without_listing_all(tmp_path):
    names = [f"column_{n}" for n in range(500)]
    row = ",".join("1" for _ in names)
    # Its rows cannot be read at all.
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), row, "1", "1", ""]))
    for wrong, why in (
        ("colunm_7", r"^LABEL=colunm_7: no such column \(did you mean 'column_\d+'\?\)$"),
        ("price", r"^LABEL=price: no such column; there are column_0, .*, column_19 and 480 more$"),
    ):
        with pytest.raises(errors.UsageError, match=why):
            write_config.propose(str(tmp_path / "t.csv"), str(tmp_path / "made.yaml"), wrong)
