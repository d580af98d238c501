"""Features with a slash in their names: variables that are shared, and found by the Keras form."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.feature_tables import make
from tests.trainer import clicks
from trainer.checkpoints.parameters import Parameters
from trainer.migration import networks
from trainer.networks.keras_columns import KerasColumns

IDS = [{"identity": {"ids": clicks.ITEMS}}]
MODELS = {
    "dnn": {},
    "dcn": {},
    "deepfm": {"factors": 4},
    "mmoe": {},
    "din": {"reduction": "attention"},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_table_is_shared_and_found(tmp_path, name):
    features = {
        "the/item": {"of": "item", "steps": IDS, "embedding": 4},
        "was/clicked": {
            "of": "clicked",
            "steps": IDS,
            "embedding": {"table": "the/item", "position": True, "sequence": name == "din"},
        },
    }
    model = {"name": name, "params": MODELS[name]}
    job, rows = make(features, columns=clicks.COLUMNS, model=model), clicks.rows()
    found = clicks.train(str(tmp_path), job, rows, steps=3)
    inputs = "dnn/input_from_feature_columns/input_layer"
    assert {variable for variable in found.read if variable.startswith(inputs)} == {
        f"{inputs}/the_item_embedding/embedding_weights",
        f"{inputs}/was_clicked_embedding/position_weights",
    }
    columns = KerasColumns(found.transforms)
    model = networks.build_model(job.model, columns, Parameters(found.checkpoint))
    fed = columns.prepare_inputs(
        {n: tf.constant(x) for n, x in rows.items() if n in ("item", "clicked")}
    )
    answers = model(fed)["probabilities"].numpy()[:, 1]
    asked = {n: rows[n] for n in ("item", "clicked")}
    np.testing.assert_allclose(answers, found.ask(asked), rtol=1e-5, atol=1e-6)
