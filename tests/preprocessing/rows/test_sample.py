"""Which rows are left out: a share of those with the value, in train alone, by their key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline import config
from pipeline.config.splits import SPLITS
from preprocessing.rows import sample, split
from tests.preprocessing import tables

ROWS = 20_000
_RULE = {"column": "label", "value": 0, "keep": 0.1}


def _data(**rule) -> config.Data:
    return tables.make_config("x", key=["id"], sample={**_RULE, **rule}).data


def _batch() -> tuple[pa.RecordBatch, pa.Array]:
    rows = range(ROWS)
    batch = tables.batch([(i, "n", 1.0, int(i % 4 == 0)) for i in rows])
    return batch, pa.array([b"%07d" % i for i in rows], pa.large_binary())


def _staying(data: config.Data, of: str = "train") -> np.ndarray:
    batch, keys = _batch()
    return sample.select_kept(batch, keys, np.full(ROWS, SPLITS.index(of), np.uint8), data=data)


def test_the_share_is_kept_and_all_other_rows():
    found, negative = _staying(_data()), np.arange(ROWS) % 4 != 0
    n = negative.sum()
    # Five standard deviations of a binomial count.
    assert abs(found[negative].sum() - 0.1 * n) < 5 * np.sqrt(0.1 * 0.9 * n)
    assert found[~negative].all()


@pytest.mark.parametrize("of", ["eval", "test"])
def test_the_metric_of_a_model_stays(of):
    assert _staying(_data(), of).all()


def test_a_larger_share_keeps_the_rows_of_a_smaller_one():
    small, large = _staying(_data()), _staying(_data(keep=0.4))
    assert large[small].all() and large.sum() > small.sum()


def test_the_salt_decides():
    kept, other = (_staying(_data(salt=salt)) for salt in ("a", "b"))
    assert (kept != other).any()


def test_a_sample_has_nothing_to_do_with_the_split():
    """A hash that both shared would keep rows of one end of it, which the split takes away."""
    _, keys = _batch()
    data = _data()
    splits = split.draw(keys, np.zeros(ROWS, np.uint8), "train", data=data)
    found = _staying(data)
    negative = np.arange(ROWS) % 4 != 0
    for index in (SPLITS.index("train"), SPLITS.index("eval")):
        of_split = found[negative & (splits == index)]
        assert abs(of_split.mean() - 0.1) < 5 * np.sqrt(0.09 / len(of_split))


def test_rows_without_a_value_stay():
    data = tables.make_config(
        "x", key=["id"], sample={"column": "name", "value": "n", "keep": 0.01}
    ).data
    batch = tables.batch([(i, None if i % 2 else "n", 1.0, 0) for i in range(1000)])
    keys = pa.array([b"%07d" % i for i in range(1000)], pa.large_binary())
    found = sample.select_kept(batch, keys, np.zeros(1000, np.uint8), data=data)
    assert found[1::2].all() and found[::2].mean() < 0.1


def test_without_a_sample_all_rows_stay():
    assert _staying(tables.make_config("x").data).all()


@pytest.mark.parametrize(("sensitive", "value"), [(False, "0"), (True, "one value")])
def test_what_was_left_out_is_noted_and_reported(capsys, sensitive, value):
    columns = {**tables.COLUMNS, "label": {"type": "int64", "sensitive": sensitive}}
    data = tables.make_config("x", columns, key=["id"], sample=_RULE).data
    noted = sample.report_sample(data, 1234)
    assert (noted.column, noted.value, noted.keep, noted.dropped) == ("label", 0, 0.1, 1234)
    assert capsys.readouterr().out == (
        f"data.sample keeps 10 % of the rows of train with {value} in label; 1,234 were left out.\n"
    )


def test_nothing_is_noted_without_a_sample(capsys):
    assert sample.report_sample(tables.make_config("x").data, 0) is None
    assert not capsys.readouterr().out
