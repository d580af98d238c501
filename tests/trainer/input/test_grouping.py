"""Numbers of groups by the values of a column."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config, errors
from pipeline.config import config_file
from tests.trainer import small_table
from trainer.input import grouping


def _ids(values, **column):
    """In a graph, as of an Estimator."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ids = grouping.compute_ids(tf.constant(np.array(values)), config.Column(**column))
        return session.run(ids)


def test_equal_values_have_equal_numbers():
    ids = _ids(["a", "b", "a", ""], type="string")
    assert ids[0] == ids[2] and len(np.unique(ids)) == 3 and np.all(ids >= 0)
    assert _ids([-1, 5], type="int64").tolist() == [-1, 5]


def test_records_without_a_value_are_in_no_group():
    assert _ids(["a", ""], type="string", missing="allow")[1] == grouping.MISSING
    assert _ids([-1, 5], type="int64", missing="allow").tolist() == [grouping.MISSING, 5]
    assert _ids([-1, 5], type="int64", missing="allow", default=-1).tolist() == [-1, 5]


def test_many_distinct_texts_have_distinct_numbers():
    texts = np.char.add("user-", np.arange(100_000).astype(str))
    assert len(np.unique(_ids(texts, type="string"))) == 100_000


def _job(folder, *overrides):
    path = folder / "table.yaml"
    path.write_text(small_table.CONFIG)
    return config_file.load(str(path), list(overrides))


def test_more_records_than_fit_in_memory(tmp_path):
    job = _job(tmp_path, "eval.group=carrier")
    grouping.check(job, "eval", 20_000_000)
    with pytest.raises(
        errors.UsageError,
        match=r"eval.group: split 'eval' has 20,000,001 records; metrics by group keep every "
        "prediction in memory, of at most 20,000,000 records. Evaluate on fewer, or unset it",
    ):
        grouping.check(job, "eval", 20_000_001)


def test_several_replicas_evaluate(tmp_path):
    overrides = ("eval.group=carrier", "cluster.eval_strategy=mirrored")
    job = _job(tmp_path, *overrides)
    with pytest.raises(errors.UsageError, match=r"eval.group: cluster.eval_strategy is mirrored"):
        grouping.check(job, "eval", 1)
    grouping.check(_job(tmp_path, overrides[1]), "eval", 10**9)
