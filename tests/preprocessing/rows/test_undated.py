"""Values of which the step `date` would make -1 in silence are counted."""

from __future__ import annotations

import pyarrow as pa

from pipeline import config
from preprocessing.rows import undated

COLUMNS = {
    "when": config.Column(type="string", missing="allow"),
    "born": config.Column(type="string", sensitive=True),
    "day": config.Column(type="int64", missing="allow"),
    "days": config.Column(type="string", list=True, max_items=9),
}
FORMS = {"when": ("iso", "m/d/y"), "born": ("iso",), "day": ("ymd",), "days": ("iso",)}
BATCH = pa.record_batch(
    {
        "when": ["2020-01-31", "1/31/2020", "31.1.2020", "soon", "", None],
        "born": ["1999-01-01"] * 5 + ["Jane"],
        "day": [20200131, 20200230, -1, None, 7, 20200101],
        "days": [["2020-01-31", "x"], [], ["y"], None, ["2020-02-30"], []],
    }
)


def test_what_no_form_reads_is_counted_but_not_what_is_missing():
    found = undated.count(BATCH, FORMS, COLUMNS)
    assert found["when"] == (2, "'31.1.2020'")
    assert found["day"] == (2, "'20200230'")
    assert found["days"] == (3, "'2020-02-30'")


def test_sensitive_values_are_not_shown():
    assert undated.count(BATCH, FORMS, COLUMNS)["born"] == (1, "<redacted>")


def test_columns_that_are_not_there_are_left_out():
    assert undated.count(BATCH.select(["day"]), FORMS, COLUMNS).keys() == {"day"}


def test_counts_do_not_depend_on_the_order_of_parts():
    one, other = {"a": (2, "'c'"), "b": (1, "'x'")}, {"a": (3, "'b'")}
    assert undated.merge(one, other) == undated.merge(other, one)
    assert undated.merge(one, other) == {"a": (5, "'b'"), "b": (1, "'x'")}


def test_what_is_reported():
    assert list(undated.format_warnings({"when": (1200, "'soon'")}, FORMS)) == [
        "column 'when': 1,200 values are no dates in the form iso or m/d/y, such as 'soon'. The "
        "step date makes -1 of that: correct it, or write data.columns.when.dates to refuse such "
        "rows"
    ]


def test_columns_are_reported_in_the_order_of_their_names():
    """Workers count in parts, whose order changes from run to run."""
    counts = {"when": (1, "'soon'"), "born": (2, "<redacted>")}
    found = [line.split(":")[0] for line in undated.format_warnings(counts, FORMS)]
    assert found == ["column 'born'", "column 'when'"]
