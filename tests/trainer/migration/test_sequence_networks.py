"""Keras models of sequences answer as the exported ones, saved and loaded again."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import clicks
from trainer.checkpoints.parameters import Parameters
from trainer.migration import networks
from trainer.migration.keras_columns import KerasColumns


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["attention", "mean", "last", "gru"])
def test_din(tmp_path, reduction):
    job, rows = clicks.job(reduction=reduction, hidden_units=[6, 5]), clicks.rows()
    found = clicks.trained(str(tmp_path / "run"), job, rows, steps=10)
    columns = KerasColumns(found.transforms)
    model = networks.whole(job.model, columns, Parameters(found.checkpoint))
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    empty = {**rows, "clicked": np.full_like(rows["clicked"], -1)}
    gaps = {**rows, "clicked": rows["clicked"][:, [2, 0, 3, 1]]}
    for given in (rows, empty, gaps):
        fed = columns.fed({n: tf.constant(x) for n, x in given.items() if n != "late"})
        answers = loaded(fed)["probabilities"].numpy()[:, 1]
        np.testing.assert_allclose(answers, found.ask(given), rtol=1e-5, atol=1e-6)
