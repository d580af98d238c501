"""How large tables become: with statistics of the records, and without."""

from __future__ import annotations

import pytest

from pipeline.records import table_sizes
from pipeline.records.table_sizes import Table
from tests.pipeline.feature_tables import contents, make

FEATURES = {
    "carrier": {"steps": ["vocabulary"], "embedding": 4},
    "tail": {"steps": [{"hash": {"buckets": 900}}], "embedding": 16},
    "other": {
        "of": "tail",
        "steps": [{"hash": {"buckets": 900}}],
        "embedding": {"table": "tail"},
    },
    "route": {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 7000}}]},
    "time": {"steps": ["z_score"]},
}
CARRIER, TAIL, ROUTE = (
    [Table("carrier", 4, width) for width in (4, 1)],
    [Table("tail", 900, width) for width in (16, 1)],
    [Table("route", 7000, width) for width in (19, 1)],
)


def _job(name, **params):
    return make(FEATURES, {"threshold": 1}, model={"name": name, "params": params})


@pytest.mark.parametrize(
    ("name", "params", "wanted"),
    [
        ("dnn", {}, [CARRIER[0], TAIL[0], ROUTE[0]]),
        ("linear", {}, [CARRIER[1], TAIL[1], Table("other", 900, 1), ROUTE[1]]),
        (
            "dnn_linear_combined",
            {},
            [*CARRIER[::-1], *TAIL[::-1], Table("other", 900, 1), ROUTE[1]],
        ),
        ("mnist_mlp", {}, []),
        ("my:model_fn", {}, []),
    ],
)
def test_tables_of_a_model(name, params, wanted):
    job = _job(name, **params)
    assert table_sizes.find_tables(job, contents(job)) == wanted
    without = [table for table in wanted if table.feature != "carrier"]
    assert table_sizes.find_tables(job, None) == without


def test_a_weight_for_each_class():
    features = {"tail": FEATURES["tail"]}
    job = make(features, model={"name": "linear", "params": {"classes": 5}})
    assert table_sizes.find_tables(job, None) == [Table("tail", 900, 5)]


def test_what_one_server_holds_at_least():
    tables = [Table("a", 1000, 10), Table("b", 100, 10), Table("c", 100, 10)]
    assert str(tables[0]) == "1,000 x 10 x 4 bytes"
    assert table_sizes.compute_server_bytes(tables, 1, 4000) == 48_000
    assert table_sizes.compute_server_bytes(tables, 2, None) == 40_000
    assert table_sizes.compute_server_bytes(tables, 2, 4000) == 20_000 + 4000
    assert table_sizes.compute_server_bytes(tables, 4, 4000) == 10_000 + 4000
    assert table_sizes.compute_server_bytes(tables, 2, 1000) == 24_000


def test_copies_count_where_the_tables_are():
    tables = [Table("a", 1000, 10), Table("b", 100, 10, "layer")]

    def copies(table):
        return 2 if table.kind == "layer" else 3

    found = table_sizes.compute_server_bytes(tables, 2, 4000, copies=copies)
    assert found == 3 * 40_000 / 2 + 2 * 4000


LISTED = {"type": "string", "list": True, "max_items": 70}
PLACES = {"steps": [{"hash": {"buckets": 900}}], "embedding": {"size": 4, "position": True}}


@pytest.mark.parametrize(
    ("name", "params", "feature", "wanted"),
    [
        ("dnn", {}, {}, [Table("seen", 70, 4, "places")]),
        ("deepfm", {"factors": 5}, {"embedding": {"position": True}}, [5]),
        ("dnn", {}, {"embedding": {"position": True}}, [11]),
        ("dnn", {}, {"embedding": {"position": True, "table": "tail"}}, [16]),
        ("linear", {}, {}, []),
    ],
)
def test_places_in_lists_have_vectors_too(name, params, feature, wanted):
    features = {"tail": {**FEATURES["tail"], "embedding": 16}, "seen": {**PLACES, **feature}}
    if name == "deepfm":
        features["tail"]["embedding"] = "auto"
    model = {"name": name, "params": params}
    job = make(features, {"threshold": 1}, {"seen": LISTED}, model=model)
    wanted = [one if isinstance(one, Table) else Table("seen", 70, one, "places") for one in wanted]
    for known in (contents(job), None):
        found = table_sizes.find_tables(job, known)
        assert [table for table in found if table.kind == "places"] == wanted


def test_places_whose_width_follows_from_the_data():
    seen = {"steps": ["vocabulary"], "embedding": {"position": True}}
    job = make({"seen": seen}, columns={"seen": LISTED}, model={"name": "dnn"})
    assert table_sizes.find_tables(job, None) == []


HOT = {"steps": [{"hash": {"buckets": 900}}], "embedding": "one_hot"}


@pytest.mark.parametrize(
    ("name", "params", "wanted"),
    [
        ("dnn", {"hidden_units": [7, 5]}, [(916, 7)]),
        ("dcn", {"hidden_units": [7], "cross_layers": 2}, [(916, 7), (916, 916), (916, 916)]),
        (
            "dcn",
            {"hidden_units": [7], "cross_layers": 1, "rank": 3},
            [(916, 7), (916, 3), (3, 916)],
        ),
        ("linear", {}, []),
        ("two_tower", {"user": ["tail"], "item": ["time", "hot"], "hidden_units": []}, [(900, 32)]),
    ],
)
def test_layers_that_get_one_hot(name, params, wanted):
    features = {"tail": FEATURES["tail"], "time": FEATURES["time"], "hot": {**HOT, "of": "day"}}
    sections = {"eval": {"metric": "average_loss"}} if name == "two_tower" else {}
    job = make(features, {"threshold": 1}, model={"name": name, "params": params}, **sections)
    wanted = [Table("hot", *shape, "layer") for shape in wanted]
    assert table_sizes.find_layers(job, contents(job)) == wanted
    assert table_sizes.find_layers(job, None) == wanted


def test_layers_of_vectors_or_wide_parts_are_not_counted():
    features = {"tail": FEATURES["tail"], "hot": {**HOT, "of": "day", "part": "wide"}}
    model = {"name": "dnn_linear_combined"}
    job = make(features, {"threshold": 1}, model=model)
    assert table_sizes.find_layers(job, contents(job)) == []
