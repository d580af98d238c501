"""Bins of histograms, and what is in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline.records import manifest
from preprocessing.statistics import bins, column_stats, stats_page
from tests.preprocessing import tables


@pytest.mark.parametrize("number", [2**53, 1_700_000_000 * 10**9, -(2**63), 2**63 - 1])
def test_whole_numbers_with_no_halves_between_them(number):
    """Such as times in nanoseconds, and ids."""
    one = manifest.ColumnStatistics(
        count=3, min=number, max=number, quantiles=(float(number),) * 101
    )
    edges = bins.find_shared_edges([one])
    shares = bins.estimate_shares(one.quantiles, edges)
    assert len(edges) > 1 and shares.sum() == pytest.approx(1)
    assert stats_page.draw_axes(stats_page.draw_columns(shares, "red"), edges).startswith("<svg")


@pytest.mark.parametrize("draw", ["normal", "exponential", "constant"])
def test_shares_between_edges(draw):
    rng = np.random.default_rng(0)
    values = np.full(5000, 3.0) if draw == "constant" else getattr(rng, draw)(size=5000)
    edges = np.linspace(values.min() - 1, values.max() + 1, 21)
    shares = bins.estimate_shares(np.quantile(values, np.arange(101) / 100).tolist(), edges)
    np.testing.assert_allclose(shares, np.histogram(values, edges)[0] / 5000, atol=0.011)
    np.testing.assert_allclose(shares.sum(), 1)


def test_integers_have_a_bin_each():
    values = np.repeat(np.arange(1, 6), [10, 20, 40, 20, 10])
    quantiles = np.quantile(values, np.arange(101) / 100, method="inverted_cdf").tolist()
    shares = bins.estimate_shares(quantiles, np.arange(0.5, 6))
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.4, 0.2, 0.1], atol=0.011)


@pytest.mark.parametrize(
    ("low", "high"), [(18, 89), (0, 99), (-300, 300), (1, 41), (1900, 2024), (0, 10**7), (5, 101)]
)
def test_each_bin_holds_equally_many_whole_numbers(low, high):
    """Of 40 bins over 72 ages every fourth or fifth would have one age, the others two."""
    quantiles = tuple(float(low + (high - low) * n // 100) for n in range(101))
    one = manifest.ColumnStatistics(count=9, min=low, max=high, quantiles=quantiles)
    edges = bins.find_shared_edges([one])
    widths = set(np.diff(edges).tolist())
    assert len(widths) == 1 and widths.pop() % 1 == 0 and edges[0] % 1 == 0.5
    assert 2 <= len(edges) - 1 <= 40
    assert edges[0] < quantiles[1] and quantiles[99] < edges[-1]


def test_uniform_whole_numbers_have_an_even_histogram():
    values = np.tile(np.arange(18, 90), 300)
    found = _counted({"type": "int64"}, {"train": values})["train"]
    assert set(found.histogram.counts) == {600}
    page = stats_page.draw_axes("", bins.find_edges(found))
    assert ">18<" in page and ">89<" in page


def _counted(columns, splits):
    """Statistics of splits, from values by split."""
    data = tables.make_config("x").data
    column = data.columns["id"].model_copy(update=columns)
    data = data.model_copy(update={"columns": {"x": column}, "label": "x"})
    kind = pa.int64() if column.type == "int64" else pa.float32()
    found = column_stats.merge(
        [
            column_stats.count_batch(pa.record_batch({"x": pa.array(part, kind)}), split, data)
            for split, values in splits.items()
            for part in np.array_split(values, 3)
        ],
        data,
    )
    return {split: one.columns["x"] for split, one in column_stats.finish(found, data).items()}


@pytest.mark.parametrize("kind", ["normal", "skewed", "months", "quarters", "far"])
def test_values_are_counted_not_estimated(kind):
    rng = np.random.default_rng(1)
    draw = {
        "normal": lambda n: rng.normal(size=n),
        "skewed": lambda n: rng.lognormal(sigma=2, size=n),
        "months": lambda n: rng.choice(12, n, p=np.arange(1, 13) / 78) + 1,
        "quarters": lambda n: rng.integers(0, 4, n) / 4,
        "far": lambda n: 1.7e9 + rng.integers(0, 86_400, n),
    }[kind]
    whole = kind in ("months", "far")
    type_ = np.int64 if whole else np.float32
    splits = {"train": draw(9000).astype(type_), "eval": draw(700).astype(type_)}
    found = _counted({"type": "int64" if whole else "float32"}, splits)
    edges = bins.find_edges(found["train"])
    for split, values in splits.items():
        counted = np.histogram(values.astype(np.float64), edges)[0] / len(values)
        shares = bins.compute_shares(found[split], edges)
        # 86,400 different numbers share 16,384 buckets, so some lie on the other side of an edge.
        np.testing.assert_allclose(shares, counted, atol=2e-3 if kind == "far" else 1e-12)
        assert shares.sum() > 0.97
    if kind == "months":
        assert len(edges) == 13


def test_splits_without_numbers_have_no_histogram():
    found = _counted({"type": "float32"}, {"train": np.array([np.nan] * 3), "eval": np.ones(3)})
    assert found["train"].histogram is None and found["eval"].histogram is not None
    assert bins.compute_shares(found["eval"], bins.find_edges(found["eval"])).sum() == 1
