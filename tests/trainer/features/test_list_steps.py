"""Every step does to each item of a list what it does to a single value, or refuses lists."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.records import feature_plan, manifest
from pipeline.steps import STEPS
from tests.pipeline.feature_tables import contents, make, statistics
from trainer.features import transforms

KINDS = ("number", "integer", "text")
TYPES = {"number": "float32", "integer": "int64", "text": "string"}
COLUMNS = {f"one_{kind}": {"type": TYPES[kind]} for kind in KINDS} | {
    f"listed_{kind}": {"type": TYPES[kind], "list": True, "max_items": 3} for kind in KINDS
}
# What stands where there is no item; no item is that.
NONE = {"number": np.nan, "integer": -1, "text": ""}
LENGTHS = [3, 0, 1, 2, 1, 1, 0, 3, 1]
NUMBERS = [2.5, 0.0, -0.75, 40.0, 1e-3, 7.0, 7.0, 3.25, 64.0, 5.5, 0.5, 99.0]
DAYS = [20190131, 20200229, 20190229, 0, 517, 2359, 1359639900, 7, 7, 3, 19991231, 60]
WORDS = ["a", "b", "né", "b", "unknown", "2013-01-31", "2013-02-30", "1999-12-31T23:59", "0", "c"]
WORDS += ["a", "17"]
ITEMS = {"number": NUMBERS, "integer": DAYS, "text": WORDS}
# Of each step and kind of items, settings.
CASES = [
    ("buckets", "number", {"count": 4}),
    ("buckets", "integer", {"boundaries": [7, 517.5, 20190131]}),
    ("clip", "number", {"min": 0, "max": 30}),
    ("clip", "integer", {"max": 2000}),
    ("clock", "integer", {"part": "minute_of_day"}),
    ("date", "text", {"part": "weekday"}),
    ("date", "integer", {"part": "day_of_year", "form": "ymd"}),
    ("date", "integer", {"part": "minute", "form": "seconds"}),
    ("hash", "integer", {"buckets": 7}),
    ("hash", "text", {"buckets": 7}),
    ("hash", "text", {"buckets": 7, "functions": 3}),
    ("identity", "integer", {"ids": 50}),
    ("log1p", "number", {}),
    ("log1p", "integer", {}),
    ("min_max", "number", {}),
    ("min_max", "integer", {"min": 0, "max": 500}),
    ("vocabulary", "text", {}),
    ("vocabulary", "text", {"oov": 3}),
    ("vocabulary", "integer", {"values": [7, 517, 20190131]}),
    ("z_score", "number", {}),
    ("z_score", "integer", {"mean": 1e7, "deviation": 5}),
]
# What refuses lists, with the words.
SINGLE = "takes single values, got a list"
SEVERAL = "makes several numbers of each item, and no model takes lists of these"
REFUSED = [
    ("cross", "text", {"buckets": 9}, f"cross {SINGLE}"),
    ("cycle", "number", {"period": 7}, f"cycle: {SEVERAL}"),
    ("missing", "number", {"fill": 0}, f"missing {SINGLE}"),
    ("ngrams", "text", {"buckets": 9}, f"ngrams {SINGLE}"),
    ("piecewise", "integer", {"edges": [0, 7, 9]}, f"piecewise: {SEVERAL}"),
]


def _plan(column, steps):
    """Returns the plan of the feature `x`; lists have the statistics of their items."""
    job = make({"x": {"of": column, "steps": steps}}, columns=COLUMNS)
    known = contents(job)
    for kind, end in itertools.product(KINDS, ("one", "listed")):
        known.statistics["train"].columns[f"{end}_{kind}"] = _build_statistics(kind)
    return feature_plan.plan(job, known).features


def _build_statistics(kind):
    if kind == "text":
        known = (("b", 4), ("a", 3), ("né", 1))
        return manifest.ColumnStatistics(count=9, distinct=3, vocabulary=known)
    return statistics(np.array(ITEMS[kind], np.float64))


def _pad(kind):
    """Returns lists of the items, in turn, as a batch has them."""
    ends = np.cumsum(LENGTHS)
    dtype = tf.as_dtype(TYPES[kind]).as_numpy_dtype
    padded = np.full((len(LENGTHS), 3), NONE[kind], dtype)
    for row, (end, length) in enumerate(zip(ends, LENGTHS, strict=True)):
        padded[row, :length] = ITEMS[kind][end - length : end]
    return padded


def _apply(column, steps, given, *, layers):
    planned, x = _plan(column, steps), tf.constant(given, TYPES[column.partition("_")[2]])
    if not layers:
        return transforms.make(planned, {column: x})["x"].numpy()
    fed = tf.keras.Input(x.shape[1:], dtype=x.dtype)
    model = tf.keras.Model(fed, transforms.make(planned, {column: fed}, layers=True)["x"])
    return model(x).numpy()


def test_there_is_a_case_of_every_step():
    """A new step is here, with a case of each kind of items, or among those that refuse lists."""
    taken = {(name, kind) for name, kind, _ in CASES}
    refused = {name for name, *_ in REFUSED}
    assert taken == {
        (name, kind)
        for name, step in STEPS.items()
        for kind in step.takes
        if kind in KINDS and step.lists == "items" and name not in refused
    }
    # Images are no items of lists.
    others = {name for name, step in STEPS.items() if not {*step.takes} & {*KINDS}}
    assert {name for name, _ in taken} | refused | others == {*STEPS} - {"pool"}
    assert others == {"augment", "decode", "resize", "scale"}
    assert STEPS["pool"].lists == "whole"


@pytest.mark.parametrize("layers", [False, True], ids=["ops", "layers"])
@pytest.mark.parametrize(
    ("name", "kind", "settings"), CASES, ids=[f"{n}-{k}-{i}" for i, (n, k, _) in enumerate(CASES)]
)
def test_each_item_is_made_what_it_is_made_alone(name, kind, settings, layers):
    step = {name: settings}
    alone = _apply(f"one_{kind}", [step], ITEMS[kind], layers=False)
    assert len(np.unique(alone)) > 1
    by_row = np.split(alone, np.cumsum(LENGTHS)[:-1])
    if STEPS[name].gives == "ids":
        made = _apply(f"listed_{kind}", [step], _pad(kind), layers=layers)
        assert [row[row >= 0].tolist() for row in made] == [row.ravel().tolist() for row in by_row]
        return
    # No model takes lists of numbers: they are made one, which of a single item is that.
    for by, pool in {"sum": np.sum, "min": np.min}.items():
        made = _apply(f"listed_{kind}", [step, {"pool": {"by": by}}], _pad(kind), layers=layers)
        wanted = [pool(row.astype(np.float64)) if len(row) else 0.0 for row in by_row]
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6, err_msg=by)


def test_lists_have_items_enough():
    assert all(sum(LENGTHS) == len(items) for items in ITEMS.values())
    assert not any(NONE[kind] in ITEMS[kind] for kind in KINDS)


@pytest.mark.parametrize(("name", "kind", "settings", "words"), REFUSED)
def test_what_refuses_lists_says_so(name, kind, settings, words):
    column = f"listed_{kind}"
    of = [column, f"one_{kind}"] if STEPS[name].several else column
    with pytest.raises(errors.UsageError, match=rf"features\.x: {words}"):
        make({"x": {"of": of, "steps": [{name: settings}]}}, columns=COLUMNS)
