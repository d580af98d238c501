"""Configs with an input_fn of the user's own: what goes with it, and what does not."""

from __future__ import annotations

import re

import pytest

from pipeline import errors
from pipeline.config import config_file, own_input

TREE = {
    "name": "own",
    "data": {"input_fn": "inputs:rows"},
    "model": {"name": "models:model"},
    "train": {"steps": 10},
}


def job(**sections):
    return config_file.validate({**TREE, **sections}, "own.yaml")


def test_a_config_with_an_input_fn_needs_no_columns_and_can_be_read_again(tmp_path):
    found = job(data={"input_fn": "inputs:rows", "serving_input_fn": "inputs:serving"})
    assert not found.data.has_records
    (tmp_path / "again.yaml").write_text(config_file.dump(found))
    assert config_file.load(str(tmp_path / "again.yaml")) == found


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        (
            {"data": {"input_fn": "a:b", "columns": {"x": {"type": "int64"}}}},
            "data: columns: describes records, and input_fn 'a:b' reads the examples by itself; "
            "give one of the two",
        ),
        ({"data": {"input_fn": "a:b", "label": "x"}}, "data: label: describes records"),
        ({"data": {"input_fn": "a:b", "key": ["x"]}}, "data: key: describes records"),
        ({"data": {"input_fn": "a.b"}}, "input_fn: must be package.module:function, got 'a.b'"),
        (
            {"data": {"serving_input_fn": "a:b", "input_fn": None}},
            "missing key 'data.inputs'; missing key 'data.columns'; missing key 'data.label'",
        ),
        ({"train": {"epochs": 2}}, "train.epochs: counts records, and data.input_fn has none"),
        ({"model": {"name": "dnn"}}, "model.name: 'dnn' is built from columns"),
        ({"features": {"x": {}}}, "features: needs columns of records"),
        ({"label": {"threshold": 1}}, "label: needs columns of records"),
        ({"eval": {"slices": ["x"]}}, "eval.slices: needs columns of records"),
        ({"eval": {"group": "x"}}, "eval.group: needs columns of records"),
    ],
)
def test_what_only_records_can_serve_is_refused(sections, text):
    with pytest.raises(errors.UsageError, match=re.escape(text)):
        job(**sections)


def test_a_serving_input_fn_is_not_for_records():
    tree = config_file.load("mnist").model_dump(mode="json")
    tree["data"]["serving_input_fn"] = "a:b"
    with pytest.raises(errors.UsageError, match="serving_input_fn: needs input_fn"):
        config_file.validate(tree, "c")


def test_commands_that_need_records_refuse_it_and_others_are_not_touched():
    text = (
        "ledger: needs records, and config 'own' has data.input_fn 'inputs:rows' in their place; "
        "ask elsewhere"
    )
    with pytest.raises(errors.UsageError, match=f"^{re.escape(text)}$"):
        own_input.refuse(job(), "ledger", instead="ask elsewhere")
    own_input.refuse(config_file.load("mnist"), "ledger")
