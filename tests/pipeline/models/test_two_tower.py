"""Which features the towers can have: what cannot be is said in one line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline import errors
from pipeline.records import item_shares, manifest
from pipeline.steps.categories import Vocabulary
from preprocessing.arrow import arrow_types
from preprocessing.statistics import column_stats
from tests.pipeline.feature_tables import make
from tests.preprocessing import tables

COLUMNS = {
    "user": {"type": "int64"},
    "item": {"type": "int64", "vocabulary": {}},
    "tags": {"type": "int64", "list": True, "max_items": 3},
    "late": {"type": "int64", "missing": "drop"},
}
IDS = [{"identity": {"ids": 9}}]
FEATURES = {
    "user": {"steps": IDS},
    "delay": {"steps": [{"missing": {"fill": 0}}]},
    "item": {"steps": IDS},
    "tags": {"steps": IDS},
}
LOSS = {"metric": "loss", "higher_is_better": False}


def _job(params=None, features=None, **sections):
    given = {"user": ["user", "delay"], "item": ["item", "tags"], **(params or {})}
    every = {name: one for name, one in {**FEATURES, **(features or {})}.items() if one}
    sections = {"eval": LOSS, **sections}
    return make(every, columns=COLUMNS, model={"name": "two_tower", "params": given}, **sections)


def test_they_share_out_the_features():
    assert _job({"item_id": "item", "log_q": True}).model.params["user"] == ["user", "delay"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"user": ["user", "dely"]},
            r"model\.params\.user: 'dely' is not a feature \(did you mean 'delay'\?\); features: "
            r"user, delay, item, tags",
        ),
        (
            {"user": []},
            r"model\.params\.user: names no feature; the tower needs one of user, delay",
        ),
        ({"item": []}, r"model\.params\.item: names no feature"),
        ({"item": ["item", "item", "tags"]}, r"params\.item: 'item' is there twice"),
        (
            {"item": ["item", "tags", "delay"]},
            r"model\.params: 'delay' is of both user and item; leave it in one",
        ),
        (
            {"user": ["user"]},
            r"model\.params: the feature 'delay' is of neither user nor item; add it to one, or "
            r"remove it",
        ),
        ({"item_id": "user"}, r"item_id: 'user' is not in item; item has item, tags"),
        ({"item_id": "itme"}, r"item_id: 'itme' is not in item \(did you mean 'item'\?\)"),
        ({"item_id": "tags"}, r"item_id: 'tags' is not one id a row; name a feature that is"),
        ({"log_q": True}, r"log_q: .* item_id, .*, is not set; write it, such as item_id: item"),
        ({"temperature": 0}, r"model\.params\.temperature: input should be greater than 0, got 0"),
        ({"units": 3}, r"two_tower has no such param.*; it has hidden_units, "),
    ],
)
def test_towers_that_cannot_be(params, message):
    with pytest.raises(errors.UsageError, match=message) as caught:
        _job(params)
    assert "\n" not in str(caught.value)


def test_both_are_needed():
    with pytest.raises(errors.UsageError, match=r"missing key 'model\.params\.item'"):
        make(FEATURES, columns=COLUMNS, model={"name": "two_tower", "params": {"user": ["user"]}})


def test_a_column_is_of_one_tower():
    features = {
        "item": {"of": ["code", "near"], "steps": [{"cross": {"buckets": 9}}]},
        "code": {"of": "item", "steps": IDS},
        "near": {"of": "user", "steps": IDS},
    }
    with pytest.raises(
        errors.UsageError,
        match=r"column 'user' is in 'user' of the user and in 'item' of the item, by which a user "
        r"knows its own item in a batch; leave it to one of them",
    ):
        _job({"item": ["item", "tags", "code", "near"]}, features)


def test_how_often_an_id_is_there_must_be_known():
    features = {"item": {"steps": [{"hash": {"buckets": 9}}]}}
    params = {"item_id": "item", "log_q": True}
    with pytest.raises(
        errors.UsageError, match=r"log_q: .* behind one step, vocabulary or identity; write that"
    ):
        _job(params, features)
    assert _job({"item_id": "item"}, features)


NUMBER, TEXT = {"type": "int64"}, {"type": "string"}
LISTED = {"vocabulary": {"values": [1, 2, 3]}}
LISTED_TEXTS = {"vocabulary": {"values": ["1", "2", "3"]}}


@pytest.mark.parametrize(
    ("column", "step"),
    [
        (NUMBER, {"identity": {"ids": 9}}),
        (NUMBER, "vocabulary"),
        (NUMBER, LISTED),
        (NUMBER, {"vocabulary": {"of": "seats"}}),
        ({**NUMBER, "allowed": [1, 2, 3]}, "vocabulary"),
        ({**TEXT, "sensitive": True}, "vocabulary"),
        ({**TEXT, "sensitive": True}, LISTED_TEXTS),
        ({**TEXT, "sensitive": True, "allowed": ["1", "2", "3"]}, "vocabulary"),
        ({**TEXT, "sensitive": True}, {"vocabulary": {"of": "carrier"}}),
    ],
)
def test_ids_are_counted_only_where_the_config_says_so(monkeypatch, column, step):
    monkeypatch.setitem(COLUMNS, "item", column)
    monkeypatch.setitem(COLUMNS, "seats", {**NUMBER, "vocabulary": {}})
    features, params = {"item": {"steps": [step]}}, {"item_id": "item", "log_q": True}
    wanted = r"log_q: needs counts of the values of 'item'; write vocabulary: {} in data\.columns"
    with pytest.raises(errors.UsageError, match=wanted):
        _job(params, features)
    assert _job({"item_id": "item"}, features)
    with pytest.raises(errors.UsageError, match="needs counts of the values of 'item'"):
        _count_items(COLUMNS["item"])
    monkeypatch.setitem(COLUMNS, "item", {**column, "vocabulary": {}})
    assert _job(params, features)
    np.testing.assert_allclose(_count_items(COLUMNS["item"]), [0.5, 0.25, 0.25])


@pytest.mark.parametrize("step", ["vocabulary", LISTED_TEXTS, {"vocabulary": {"of": "carrier"}}])
@pytest.mark.parametrize("more", [{}, {"allowed": ["1", "2", "3"]}])
def test_texts_are_counted_anyway(monkeypatch, step, more):
    monkeypatch.setitem(COLUMNS, "item", {**TEXT, **more})
    assert _job({"item_id": "item", "log_q": True}, {"item": {"steps": [step]}})
    np.testing.assert_allclose(_count_items(COLUMNS["item"]), [0.5, 0.25, 0.25])


def _count_items(column):
    """Returns the shares of the items 1, 2 and 3 by the statistics that preprocessing makes."""
    data = tables.make_config("x", {"item": column, "label": NUMBER}).data
    value = int if column["type"] == "int64" else str
    wanted = arrow_types.arrow_schema(data.columns)
    rows = {"item": [value(n) for n in (1, 2, 1, 3)], "label": [0, 1, 0, 1]}
    batch = pa.record_batch(
        [pa.array(rows[field.name], field.type) for field in wanted], schema=wanted
    )
    found = column_stats.finish(column_stats.count_batch(batch, "train", data), data)
    contents = manifest.Manifest(
        fingerprint="",
        columns=data.columns,
        label="label",
        block_records=1,
        sources=(),
        splits={},
        statistics=found,
    )
    step = Vocabulary(values=tuple(map(value, (1, 2, 3))))
    return item_shares.shares("item", contents, [step], ids=4)[:3] * 5 / 4


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"eval": {"metric": "accuracy"}},
            r"eval\.metric: two_tower does not report 'accuracy'; it has loss, average_loss, "
            r"hit_rate@10, mrr@10",
        ),
        (
            {"eval": {"metric": "hit_rate@10", "top_k": 5}},
            r"does not report 'hit_rate@10' \(did you mean 'hit_rate@5'\?\)",
        ),
        (
            {"eval": {**LOSS, "group": "user"}},
            r"eval\.group: .*'two_tower' predicts no class; leave",
        ),
        ({"eval": {**LOSS, "slices": ["user"]}}, r"eval\.slices: .* for classes and numbers"),
        (
            {"labels": {"late": {}, "time": {"task": "regression"}}},
            r"several labels are for .*, got 'two_tower'",
        ),
    ],
)
def test_what_the_model_does_not_do(sections, message):
    with pytest.raises(errors.UsageError, match=message):
        _job(**sections)


def test_samples_are_corrected_by_weights():
    data = {
        "source": "csv",
        "inputs": {"train": {"files": "x.csv"}},
        "key": ["time"],
        "columns": {**COLUMNS, "time": {"type": "int64"}, "delay": {"type": "float32"}},
        "label": "late",
        "sample": {"column": "late", "value": 0, "keep": 0.5, "correct": "logits"},
    }
    with pytest.raises(errors.UsageError, match=r"and two_tower predicts none; write correct: w"):
        _job(data=data)
    data["sample"]["correct"] = "weights"
    assert _job(data=data)


@pytest.mark.parametrize("section", ["train", "eval"])
def test_a_batch_of_one_row_has_no_other_item(section):
    sections = {"train": {"steps": 1}, "eval": LOSS}
    sections[section] = {**sections[section], "batch_size": 1}
    message = rf"{section}\.batch_size: two_tower finds .* 1 row has no other; use 2 or more"
    with pytest.raises(errors.UsageError, match=message):
        _job(**sections)
    sections[section]["batch_size"] = 2
    assert _job(**sections).model.name == "two_tower"
