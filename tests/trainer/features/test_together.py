"""Features of many columns that are alike: few ops, and the values that each would have alone."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf

from pipeline import steps
from tests.pipeline.feature_tables import contents, make
from trainer.features import transforms

# More than what is made together at least.
COUNT, ROWS = 40, 300
STAND_IN = -9


def _numbers(rng):
    found = rng.normal(0, 1e4, (COUNT, ROWS)).astype(np.float32)
    found[:, :3] = [np.nan, np.inf, -np.inf]
    return found


def _whole(rng):
    found = rng.integers(-50, 50, (COUNT, ROWS))
    found[:, :2] = [STAND_IN, 2**62]
    return found


def _texts(rng):
    words = np.array(["a", "b", "", "\x1f", "ä", "?"])
    return words[rng.integers(0, len(words), (COUNT, ROWS))]


def _z_score(rng):
    return {"z_score": {"mean": float(rng.normal(0, 1e3)), "deviation": float(rng.uniform(0.1, 9))}}


def _vocabulary(values, rng):
    values = rng.permutation(values)[: rng.integers(1, len(values))]
    return {"vocabulary": {"values": values.tolist()}}


CHAINS = {
    "z_score": ("float32", _numbers, lambda rng: [_z_score(rng)], {"RealDiv": 1}),
    "whole": ("int64", _whole, lambda rng: [_z_score(rng)], {"RealDiv": 1, "Cast": 2}),
    "min_max": (
        "float32",
        _numbers,
        lambda rng: [{"min_max": {"min": float(rng.normal()), "max": float(rng.uniform(4, 9))}}],
        {"RealDiv": 1},
    ),
    "missing": (
        "float32",
        _numbers,
        lambda rng: [
            {"missing": {"fill": float(rng.normal()), "indicator": True}},
            _z_score(rng),
        ],
        {"RealDiv": 1, "SelectV2": 1},
    ),
    "missing_whole": (
        "int64",
        _whole,
        lambda rng: [{"missing": {"fill": int(rng.integers(0, 9))}}, _z_score(rng)],
        {"RealDiv": 1, "SelectV2": 1},
    ),
    "texts": (
        "string",
        _texts,
        lambda rng: [_vocabulary(["a", "b", "\x1f", "ä", "never"], rng)],
        {"LookupTableFindV2": 2},
    ),
    "ids": (
        "int64",
        _whole,
        lambda rng: [_vocabulary(np.arange(-50, 50), rng)],
        {"LookupTableFindV2": 2},
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_columns_that_are_alike_are_a_few_ops_with_the_same_values(chain):
    kind, values, step, ops = CHAINS[chain]
    rng = np.random.default_rng(5)
    names = [f"c{n}" for n in range(COUNT)]
    column = {"type": kind}
    if "missing" in chain:
        column |= {"missing": "allow", "default": {"float32": None, "int64": STAND_IN}[kind]}
    features = {name: {"steps": step(rng)} for name in names}
    job = make(features, columns=dict.fromkeys(names, column))
    made = transforms.Transforms(job, contents(job))
    given = dict(zip(names, values(rng), strict=True))
    with tf.Graph().as_default() as graph:
        rows = {name: tf.constant(value) for name, value in given.items()}
        before = len(graph.get_operations())
        together = made.features(rows)
        counted = collections.Counter(op.type for op in graph.get_operations()[before:])
        alone = {}
        for planned in made.plan.features:  # a single one is made by itself
            alone |= transforms.make([planned], rows)
        alone = transforms.cast_features(made.plan.features, alone)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.tables_initializer())
            found, wanted = session.run((together, alone))
    assert {name: counted[name] for name in ops} == ops
    assert counted.total() < COUNT
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert value.dtype == wanted[name].dtype
        assert value.tobytes() == wanted[name].tobytes(), name


def test_a_step_with_an_op_of_its_own_is_not_made_by_that_of_another():
    class Halved(steps.numbers.ZScore):
        def apply(self, x):
            return x / 2

    assert steps.numbers.ZScore(mean=0.0, deviation=1.0).together
    assert not Halved(mean=0.0, deviation=1.0).together
