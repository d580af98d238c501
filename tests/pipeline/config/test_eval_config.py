"""The `eval:` section: which of two checkpoints is the better one."""

from __future__ import annotations

import pytest

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
