"""Which features an exported model makes otherwise than the input of its Estimator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from trainer.export import differences, parity_worker, rounding
from trainer.export.parity_rows import ParityRow
from trainer.features.transforms import Tensors, Transforms
from trainer.input import parsing


def note(features: Tensors) -> None:
    """Notes the features in the graph of an export, so that they can be found there."""
    for x in features.values():
        tf.compat.v1.add_to_collection(parity_worker.FEATURES, x)


def find(
    transforms: Transforms, rows: Sequence[ParityRow], served: rounding.Answers
) -> list[str] | None:
    """Returns the names of the features that differ; `None` if `served`, what the exported model
    answers to the rows, has no features: that of Keras notes none."""
    wanted = _compute_features(transforms, rows)
    found = [served.get(parity_worker.name_feature(n)) for n in range(len(wanted))]
    if not wanted or any(x is None or len(x) != len(rows) for x in found):
        return None
    return [
        name
        for (name, ours), theirs in zip(wanted.items(), found, strict=True)
        if theirs is not None and differences.find_unequal(ours, theirs, _compute_limit(ours)).any()
    ]


def _compute_features(transforms: Transforms, rows: Sequence[ParityRow]) -> dict[str, np.ndarray]:
    settings = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=settings) as session:
        batch = parsing.parse(tf.constant([row.example for row in rows]), transforms.columns)
        features = transforms.features(batch)
        session.run(tf.compat.v1.tables_initializer())
        return dict(session.run(features))


def _compute_limit(values: np.ndarray) -> np.ndarray | None:
    if not np.issubdtype(values.dtype, np.floating):
        return None
    largest = np.abs(values[np.isfinite(values)]).max(initial=np.finfo(np.float32).tiny)
    return np.full(values.shape, rounding.LEAST * float(largest))
