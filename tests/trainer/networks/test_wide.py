"""The linear part has the variables, answers and gradients of TensorFlow's linear model."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import feature_check
from pipeline.records import feature_plan
from tests.pipeline.feature_tables import contents, make
from trainer.features import embedding, feature_columns
from trainer.networks import wide

v1 = tf.compat.v1
_COLUMNS = {
    "tags": {"type": "string", "list": True, "max_items": 4, "allowed": ["a", "b", "c"]},
    "dwell": {"type": "float32", "list": True, "max_items": 4, "min": 0, "same_length_as": "tags"},
}
_FEATURES = {
    "z": {"of": "delay", "steps": [{"missing": {"fill": 0, "indicator": True}}, "z_score"]},
    "a x": {"of": "time", "steps": ["z_score"]},
    "carrier": {"steps": ["vocabulary"]},
    "route": {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 30}}]},
    "tags": {"steps": ["vocabulary"]},
    "seen": {"of": "tags", "steps": ["vocabulary"], "embedding": {"weights": "dwell"}},
    "twice": {"of": "origin", "steps": [{"hash": {"buckets": 20, "functions": 2}}]},
}
_IDS = {"carrier": [2, 0, 2], "route": [29, 3, 3]}
_LISTS = {"tags": [[1, 1, 3], [-1] * 3, [0, -1, -1]], "seen": [[1, 1, 3], [-1] * 3, [0, -1, -1]]}
_LISTS["twice"] = [[7, 9], [19, 19], [0, 1]]
_NUMBERS = {"z": [1.5, -1, 0], "z_missing": [0, 1, 0], "a x": [2, 4, -3]}
_WEIGHTS = [[0.5, 0.0, 2.0], [0.0] * 3, [3.0, 0.0, 0.0]]


def _theirs(features, planned, units):
    """What there was before: the columns of TensorFlow's own."""
    given = feature_columns.add_weights(features, planned)
    found = []
    for feature in planned:
        name = feature_check.make_plain_name(feature.name)
        if feature.ids is None:
            found.append(tf.feature_column.numeric_column(name))
            continue
        column = tf.feature_column.categorical_column_with_identity(name, feature.ids)
        if feature.weights is not None:
            of = feature_check.make_plain_name(feature.weights.name)
            column = embedding.weight_ids(column, of)
        found.append(column)
    found.append(tf.feature_column.numeric_column("z_missing"))
    return v1.feature_column.linear_model(given, found, units=units)


def _run(build, units, parts):
    job = make(_FEATURES, columns=_COLUMNS)
    planned = feature_plan.plan(job, contents(job)).features
    [weighted] = [f.weights.name for f in planned if f.weights]
    given = {n: np.array(x, np.int64) for n, x in (_IDS | _LISTS).items()}
    given |= {n: np.array(x, np.float32) for n, x in _NUMBERS.items()}
    given[weighted] = np.array(_WEIGHTS, np.float32)
    partitioner = v1.fixed_size_partitioner(2) if parts == 2 else None
    with tf.Graph().as_default(), v1.Session() as session:
        features = feature_columns.rename_features({n: tf.constant(x) for n, x in given.items()})
        with v1.variable_scope("linear", partitioner=partitioner):
            found = build(features, planned, units)
        variables = v1.trainable_variables()
        gradients = [tf.convert_to_tensor(g) for g in tf.gradients(found**2, variables)]
        for variable in variables:
            session.run(variable.assign(_values(variable)))
        names = [variable.op.name for variable in variables]
        return session.run(found), dict(zip(names, session.run(gradients), strict=True))


def _values(variable):
    """Returns values that depend on the name of the whole and on the place in it."""
    part = variable._get_save_slice_info()
    name, shape = (part.full_name, part.full_shape) if part else (variable.op.name, variable.shape)
    drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape).astype(np.float32)
    first = part.var_offset[0] if part else 0
    return drawn[first : first + variable.shape[0]]


@pytest.mark.parametrize("units", [1, 3])
def test_it_is_tensorflows_linear_model(units):
    found, ours = _run(wide.logits, units, 1)
    wanted, theirs = _run(_theirs, units, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert set(ours) == set(theirs)
    for name, gradient in ours.items():
        np.testing.assert_allclose(gradient, theirs[name], rtol=1e-5, err_msg=name)


def test_it_is_the_same_in_parts():
    found, ours = _run(wide.logits, 3, 2)
    np.testing.assert_allclose(found, _run(wide.logits, 3, 1)[0], rtol=1e-6)
    assert "linear/linear_model/route/weights/part_1" in ours


def test_a_column_of_ids_takes_few_ops():
    job = make({f"c{n}": {"of": "origin", "steps": ["vocabulary"]} for n in range(50)})
    planned = feature_plan.plan(job, contents(job)).features
    with tf.Graph().as_default() as graph:
        features = {f.name: v1.placeholder(tf.int64, [None]) for f in planned}
        wide.logits(features, planned, 1)
        assert len(graph.get_operations()) < 15 * len(planned)
