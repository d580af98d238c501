"""The `eval:` section: which of two checkpoints is the better one."""

from __future__ import annotations

import pytest

from pipeline.config import config_file
from pipeline.config.eval_config import Eval


@pytest.mark.parametrize(
    ("metric", "higher"),
    [
        ("accuracy", True),
        ("auc", True),
        ("clicked/grouped_auc", True),
        ("lossless", True),
        ("loss", False),
        ("average_loss", False),
        ("dwell/average_loss", False),
        ("mean_absolute_error", False),
        ("RMSE", False),
        ("normalized_entropy", False),
    ],
)
def test_the_smallest_loss_is_the_best(metric, higher):
    assert Eval(metric=metric).higher_is_better is higher
    assert Eval(metric=metric, higher_is_better=True).higher_is_better is True
    assert Eval(metric=metric, higher_is_better=False).higher_is_better is False


def test_it_is_kept_in_what_is_written():
    kept = Eval(metric="loss", higher_is_better=True).model_dump()
    assert Eval.model_validate(kept).higher_is_better is True


_TABLE = """
name: one
data:
  source: csv
  inputs: {train: {files: none.csv}}
  columns: {x: {type: float32}, y: {type: int64}}
  label: y
features: {x: {}}
model: {name: dnn, params: {hidden_units: [4]}}
train: {steps: 1}
"""


@pytest.mark.parametrize(
    ("written", "overrides", "higher"),
    [
        ("{metric: auc}", ["eval.metric=loss"], False),
        ("{metric: loss}", ["eval.metric=auc"], True),
        ("{metric: price, higher_is_better: false}", ["eval.metric=auc"], True),
        ("{metric: price, higher_is_better: false}", ["eval.metric=price"], False),
        ("{metric: price, higher_is_better: false}", ["eval.batch_size=3"], False),
        ("{metric: auc}", ["eval.higher_is_better=true", "eval.metric=loss"], True),
        ("{metric: auc}", ["eval={metric: loss, higher_is_better: true}"], True),
    ],
)
def test_another_metric_has_a_direction_of_its_own(tmp_path, written, overrides, higher):
    """Also in the config that a run keeps, where every value is written."""
    path = tmp_path / "one.yaml"
    path.write_text(f"{_TABLE}eval: {written}\n")
    for text in (path.read_text(), config_file.dump(config_file.load(str(path)))):
        path.write_text(text)
        assert config_file.load(str(path), overrides).eval.higher_is_better is higher


@pytest.mark.parametrize(
    ("over", "higher"),
    [
        ("{metric: loss}", False),
        ("{batch_size: 3}", True),
        ("{metric: loss, higher_is_better: true}", True),
    ],
)
def test_another_metric_over_a_base_has_a_direction_of_its_own(tmp_path, over, higher):
    (tmp_path / "one.yaml").write_text(f"{_TABLE}eval: {{metric: auc, higher_is_better: true}}\n")
    path = tmp_path / "two.yaml"
    path.write_text(f"name: two\nbase: one.yaml\neval: {over}\n")
    assert config_file.load(str(path)).eval.higher_is_better is higher
