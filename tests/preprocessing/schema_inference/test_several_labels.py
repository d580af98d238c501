"""A first config for several labels."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import config_file
from preprocessing.schema_inference import write_config


def _even(row, value):
    return "" if row % 2 else value


def _data(folder):
    path = folder / "t.csv"
    rows = [
        f"{n},{n / 7},u{n % 40},{n % 2},{_even(n, n % 3 // 2)},{_even(n, n / 9)},c{n % 3}"
        for n in range(400)
    ]
    path.write_text("\n".join(["id,x,user,clicked,bought,seconds,kind", *rows]) + "\n")
    return str(path)


def _proposed(folder, label):
    out = folder / "made.yaml"
    out.unlink(missing_ok=True)
    made = write_config.propose(_data(folder), str(out), label)
    write_config.write(str(out), made.text)
    return config_file.load(str(out)), made


def test_each_has_its_task_and_may_be_missing(tmp_path):
    job, made = _proposed(tmp_path, "clicked,bought, seconds,kind")
    assert made.label == "clicked, bought, seconds, kind"
    assert list(job.labels) == ["clicked", "bought", "seconds", "kind"]
    assert job.labels["bought"].params == {"task": "classification", "classes": 2}
    assert job.labels["seconds"].task == "regression" and job.labels["seconds"].scale > 5
    assert (job.labels["kind"].classes, job.labels["kind"].vocabulary) == (3, True)
    missing = {name: job.data.columns[name].missing for name in job.labels}
    assert missing == {
        "clicked": "reject", "bought": "allow", "seconds": "allow", "kind": "reject",
    }  # fmt: skip
    assert set(job.features) & set(job.labels) == set()
    assert (job.model.name, job.eval.metric, job.data.key) == ("mmoe", "clicked/auc", ("id",))
    assert not any("drops" in said for said in made.remarks)
    assert not set(made.telling) & set(job.labels)


def test_the_first_chooses_the_checkpoint(tmp_path):
    job, _ = _proposed(tmp_path, "seconds,clicked")
    assert (job.eval.metric, job.eval.higher_is_better) == ("seconds/average_loss", False)
    job, _ = _proposed(tmp_path, "kind,clicked")
    assert job.eval.metric == "kind/accuracy"
    assert job.model.params["dropout"] == 0.1


def test_a_key_that_is_predicted_is_no_key(tmp_path):
    job, _ = _proposed(tmp_path, "id,clicked")
    assert job.data.key == () and "id" in job.labels


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("clicked,clicked", "LABEL=clicked,clicked: names 'clicked' twice"),
        ("clicked,bougth", r"LABEL=bougth: no such column \(did you mean 'bought'\?\)"),
        ("clicked,user,x,seconds,kind,bought,id", r"LABEL=clicked,.*: no column makes a feature"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, label, message):
    with pytest.raises(errors.UsageError, match=message):
        _proposed(tmp_path, label)


def test_a_column_whose_name_has_a_comma_is_one(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,"a,b"\n' + "".join(f"{n / 7},{n % 2}\n" for n in range(60)))
    assert write_config.propose(str(path), str(tmp_path / "t.yaml"), "a,b").label == "a,b"
