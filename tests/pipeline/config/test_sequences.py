"""Sequences, and places in lists: which are refused, and in which words."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.records import feature_plan
from tests.pipeline.feature_tables import contents, make

LIST = {"type": "int64", "list": True, "max_items": 3}
COLUMNS = {"clicked": LIST, "item": {"type": "int64"}}
IDS = [{"identity": {"ids": 9}}]
TWO = [{"hash": {"buckets": 9, "functions": 2}}]
ITEM = {"steps": IDS, "embedding": 4}
DIN, MEAN = {"name": "din"}, {"name": "din", "params": {"reduction": "mean"}}


def _job(model, steps=IDS, item=ITEM, **embedding):
    given = {"table": "item", "sequence": True, **embedding}
    given = {key: value for key, value in given.items() if value is not None}
    features = {"item": item, "clicked": {"steps": steps, "embedding": given}}
    return make(features, columns=COLUMNS, model=model)


def test_what_can_be():
    assert _job(DIN).features["clicked"].sequence
    assert _job(MEAN, table=None).features["clicked"].sequence
    assert _job({"name": "my:model_fn"}).features["clicked"].sequence
    assert not _job({"name": "dnn"}, sequence=False).features["clicked"].sequence


def test_a_run_reads_its_own_config(tmp_path):
    (tmp_path / "config.yaml").write_text(config_file.dump(_job(DIN)))
    assert config_file.load(str(tmp_path / "config.yaml")).features == _job(DIN).features


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (
            {"name": "dnn"},
            {},
            r"features\.clicked\.embedding\.sequence: dnn takes one vector of each list; leave "
            r"sequence out, or use model\.name: din",
        ),
        (DIN, {"combiner": "sum"}, r"sequence keeps the vectors of all items, and combiner is for"),
        (DIN, {"weights": "w"}, r"and weights is for combining them; leave one of the two out"),
        (
            DIN,
            {"sequence": False},
            r"model\.name: din is for sequences, and no feature is one; write embedding: "
            r"\{sequence: true\} for a list of ids, or use dnn or dcn",
        ),
        (
            DIN,
            {"table": None},
            r"features\.clicked\.embedding: din compares the items with a candidate from the same "
            r"table, and table is not set; write table: item",
        ),
        (
            DIN,
            {"table": "itme"},
            r"embedding\.table: 'itme' is no feature \(did you mean 'item'\?\)",
        ),
        (
            DIN,
            {"item": {"of": "clicked", **ITEM}},
            r"table: din compares the items with one id, and 'item' has several per row; name a "
            r"feature of one, or write model\.params\.reduction: mean",
        ),
        (MEAN, {"steps": TWO, "table": None}, r"takes one id of each item, and hash gives 2"),
        (
            MEAN,
            {"steps": [{"pool": {"by": "count"}}], "table": None},
            r"features\.clicked\.embedding\.sequence: pool makes one value of the list; leave one",
        ),
    ],
)
def test_what_cannot_be(model, given, message):
    with pytest.raises(errors.UsageError, match=message) as caught:
        _job(model, **given)
    assert "\n" not in str(caught.value)


def test_a_sequence_is_of_a_list():
    features = {"item": {"steps": IDS, "embedding": {"sequence": True}}}
    with pytest.raises(errors.UsageError, match="is for the items of one column with list: true"):
        make(features, columns=COLUMNS, model=MEAN)


PLACES = {"size": 4, "position": True}


def _placed(embedding=PLACES, column=LIST, steps=IDS, **feature):
    columns = {**COLUMNS, "clicked": column}
    given = {"clicked": {"steps": steps, "embedding": embedding, **feature}, "item": ITEM}
    return make(given, columns=columns, model={"name": "dnn"})


def test_places_can_be_of_any_list_of_ids():
    for job in (_placed(), _placed(steps=TWO), _job(DIN, position=True)):
        planned = {one.name: one for one in feature_plan.plan(job, contents(job)).features}
        assert (planned["clicked"].positions, planned["item"].positions) == (3, None)
    assert not _job(DIN).features["clicked"].position


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"column": {"type": "int64"}},
            r"features\.clicked\.embedding\.position: is for the items of one column with "
            r"list: true, and 'clicked' is one int64; leave it out",
        ),
        (
            {"of": ["item", "time"], "steps": [{"cross": {"buckets": 9}}]},
            r"position: is for .* and 'item', 'time' are several; leave it out",
        ),
        ({"of": "item", "steps": []}, r"position: is for .* and 'item' is one int64; leave it"),
        (
            {"column": {"type": "int64", "list": True}},
            r"data\.columns\.clicked: list: true needs max_items, the most items of a row",
        ),
        (
            {"embedding": {**PLACES, "combiner": "max"}},
            r"embedding: position is for the combiners mean, sum and sqrtn, got max",
        ),
        (
            {"steps": [{"pool": {"by": "count"}}]},
            r"clicked\.embedding\.position: pool makes one value of the list; leave one out",
        ),
    ],
)
def test_places_are_those_of_lists(given, message):
    with pytest.raises(errors.UsageError, match=message) as caught:
        _placed(**given)
    assert "\n" not in str(caught.value)
