"""What can be sampled, what makes up for it, and what is refused."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.records import builds

_COLUMNS = {
    "row": {"type": "int64"},
    "x": {"type": "float32"},
    "clicked": {"type": "int64", "min": 0, "max": 2},
    "place": {"type": "string", "allowed": ["top", "side"]},
    "tags": {"type": "string", "list": True, "max_items": 3},
    "seen": {"type": "int64", "missing": "allow", "default": 0},
}
_CLICKED = {"column": "clicked", "value": 0, "keep": 0.1}


def _job(sample, model=None, label=None, key=("row",)):
    tree = {
        "name": "clicks",
        "data": {
            "source": "csv",
            "inputs": {"train": {"files": "x.csv"}},
            "columns": _COLUMNS,
            "label": "clicked",
            "key": list(key),
            "sample": sample,
        },
        "features": {"x": {}},
        "label": label or {},
        "model": model or {"name": "linear"},
        "train": {"steps": 1},
    }
    return config_file.validate(tree, where="test")


def test_weights_make_up_for_what_is_left_out_unless_configured_otherwise():
    assert _job(_CLICKED).data.sample.correct == "weights"


@pytest.mark.parametrize("correct", ["weights", "logits", "none"])
def test_records_do_not_depend_on_the_correction(correct):
    found = builds.find_deciding_settings(_job({**_CLICKED, "correct": correct}).data)
    assert found == builds.find_deciding_settings(_job(_CLICKED).data)
    assert found["sample"] == _CLICKED


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ({"column": "click"}, "sample.column: 'click' is not a column .did you mean 'clicked'"),
        ({"column": "tags", "value": "a"}, "sample.column: 'tags' must hold one number or text"),
        ({"value": "0"}, "sample.value: '0' cannot be a value of 'clicked', which is int64"),
        ({"value": 0.5}, "sample.value: 0.5 cannot be a value of 'clicked', which is int64"),
        ({"column": "place", "value": 1}, "sample.value: 1 cannot be a value of 'place', which is"),
        ({"column": "place", "value": "up"}, "'up' is not allowed in 'place': top, side"),
        ({"column": "seen"}, "sample.value: 0 also stands for a missing 'seen', whose rows are"),
        ({"value": 3}, "sample.value: 3 is outside of min and max of 'clicked', so no row has it"),
        ({"value": -1}, "sample.value: -1 is outside of min and max of 'clicked', so no row has"),
        ({"keep": 0}, "data.sample.keep: input should be greater than 0, got 0"),
        ({"keep": 1}, "data.sample.keep: input should be less than 1, got 1"),
        ({"correct": "odds"}, "data.sample.correct: input should be 'weights', 'logits' or 'none'"),
    ],
)
def test_what_cannot_be_sampled_is_refused(sample, words):
    with pytest.raises(errors.UsageError, match=f"(?i){words}") as raised:
        _job({**_CLICKED, **sample})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("sample", "model", "label", "words"),
    [
        ({}, None, {"balanced": True}, "weights and label.balanced contradict each other"),
        (
            {"correct": "logits", "column": "place", "value": "top"},
            None,
            None,
            "logits is for samples by the label, 'clicked', got 'place'; write correct: weights",
        ),
        ({"correct": "logits"}, None, {"threshold": 0}, "logits is not for a label with a thresh"),
        ({"correct": "logits"}, {"name": "my.module:model_fn"}, None, "got 'my.module:model_fn'"),
        (
            {"correct": "logits"},
            {"name": "linear", "params": {"task": "regression"}},
            None,
            "logits is for classes, and the model predicts a number; write correct: weights",
        ),
        (
            {"correct": "logits", "value": 2},
            None,
            None,
            "logits: 2 is not a class: labels go from 0 to 1",
        ),
    ],
)
def test_a_correction_that_cannot_be_made_is_refused(sample, model, label, words):
    with pytest.raises(errors.UsageError, match=words) as raised:
        _job({**_CLICKED, **sample}, model, label)
    assert "\n" not in str(raised.value)


def test_rows_need_a_key():
    with pytest.raises(errors.UsageError, match=r"data: sample: needs data\.key, the columns that"):
        _job(_CLICKED, key=())


def test_nothing_is_asked_of_a_sample_that_is_not_corrected():
    assert _job({**_CLICKED, "correct": "none"}, label={"balanced": True}).data.sample
