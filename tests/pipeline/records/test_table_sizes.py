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
