"""Networks and lengths of training."""

from __future__ import annotations

import pyarrow as pa
import pytest
import yaml

from preprocessing.schema_inference import profile, suggest_model
from preprocessing.schema_inference.heuristics import SuggestedColumn


def _found(values) -> profile.ColumnProfile:
    found = profile.ColumnProfile()
    found.see(pa.array([str(value).encode() for value in values]))
    return found


def _config(label, columns=None, rows=1000):
    columns = columns or {"x": SuggestedColumn({}, [], ["z_score"])}
    return yaml.safe_load("\n".join(suggest_model.write_lines({"y": _found(label)}, columns, rows)))


@pytest.mark.parametrize(
    ("label", "section", "params", "metric"),
    [
        ([0, 1, 1], None, {"classes": 2}, "auc"),
        (["a", "b", "c"] * 2, {"vocabulary": True}, {"classes": 3}, None),
        ([0.5, 1.5], {"threshold": 1.0}, {"classes": 2}, "auc"),
        (
            [0.5, 1.5, 9.5],
            None,
            {"task": "regression", "offset": 4.0, "scale": 4.0},
            "average_loss",
        ),
    ],
)
def test_tasks(label, section, params, metric):
    made = _config(label)
    assert made.get("label") == section and made.get("eval", {}).get("metric") == metric
    network = {"hidden_units": [256, 128]} | ({"dropout": 0.1} if "classes" in params else {})
    assert made["model"] == {"name": "dnn", "params": {**params, **network}}


@pytest.mark.parametrize(
    ("label", "rows", "hashed", "steps", "batch"),
    [
        ([0, 1], 0, False, 300, 1),
        ([0, 1], 6, False, 300, 4),
        ([0, 1], 50, False, 300, 32),
        ([0, 1], 128, False, 300, 128),
        ([0, 1], 6000, False, 900, 128),
        ([0.5, 1.5, 9.5], 6000, False, 1400, 128),
        ([0, 1], 43_000, False, 3400, 256),
        ([0.5, 1.5, 9.5], 43_000, False, 5000, 256),
        ([0, 1], 10**7, False, 6000, 256),
        ([0, 1], 80_000, True, 1600, 256),
    ],
)
def test_the_length_of_training_follows_label_and_rows(label, rows, hashed, steps, batch):
    embedding = {
        "x": SuggestedColumn({}, [], [{"hash": {"buckets": 64}}], embedding=8 if hashed else None)
    }
    train = _config(label, embedding, rows)["train"]
    assert (train["steps"], train["batch_size"]) == (steps, batch)
    assert train["save_steps"] * 5 <= steps


@pytest.mark.parametrize(
    ("columns", "rows", "steps", "checkpoints"),
    [(300, 200, 300, 5), (301, 200, 300, 2), (3001, 200, 100, 1), (3001, 2000, 500, 1)],
)
def test_wide_tables_are_evaluated_less_often(columns, rows, steps, checkpoints):
    wide = {f"x{n}": SuggestedColumn({}, [], ["z_score"]) for n in range(columns)}
    train = _config([0.5, 1.5, 9.5], wide, rows)["train"]
    assert (train["steps"], train["save_steps"]) == (steps, steps // checkpoints)


@pytest.mark.parametrize(
    ("rows", "passes"),
    [(4, "300"), (7, "170"), (150, "260"), (500, "77"), (50_000, "20"), (10**7, "0.15")],
)
def test_passes_are_written_as_people_write_numbers(rows, passes):
    label = _found([0, 1])
    columns = {"x": SuggestedColumn({}, [], ["z_score"])}
    text = "\n".join(suggest_model.write_lines({"y": label}, columns, rows))
    assert f"# {passes} passes over about {rows:,} rows of train\n" in text


def test_parts_that_are_called_like_a_column_get_another_name():
    columns = {
        "x": SuggestedColumn({}, [], [], parts={"x_month": ["z_score"]}),
        "x_month": SuggestedColumn({}, [], ["z_score"]),
    }
    made = _config([0, 1], columns)["features"]
    assert made == {
        "x_month_": {"of": "x", "steps": ["z_score"]},
        "x_month": {"steps": ["z_score"]},
    }


def test_without_a_feature_the_model_is_your_own():
    assert (
        _config([0, 1], {"x": SuggestedColumn({}, [])})["model"]["name"]
        == "package.module:model_fn"
    )
