"""The pages of the docs say all there is, and the example in them runs."""

from __future__ import annotations

import re
import sys

import pytest
import tensorflow as tf

from pipeline.config import config_file
from pipeline.steps import STEPS
from tests.pipeline.feature_tables import contents, make
from trainer import models, optimizers
from trainer.export import exporters
from trainer.models import NAMED
from trainer.models.transforms import Transforms

DOCS = config_file.SHIPPED.parent / "docs"


def test_every_transform_is_documented_with_its_formula():
    rows = re.findall(
        r"^\| `(\w+)` \|(.*)\|(.*)\|(.*)\|$", (DOCS / "features.md").read_text(), re.M
    )
    assert [row[0] for row in rows] == list(STEPS)
    assert all(len(row[3].strip()) > 3 for row in rows)


def test_every_model_is_documented():
    text = (DOCS / "models.md").read_text()
    assert not [name for name in NAMED if f"`{name}`" not in text]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The example as a user keeps it: a file in a folder on PYTHONPATH."""
    [code] = re.findall(r"^```python\n(.*?)^```$", (DOCS / "models.md").read_text(), re.M | re.S)
    assert len(code.splitlines()) <= 40
    (tmp_path / "my_model.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_model:model_fn"
    sys.modules.pop("my_model")


def test_the_example_learns_its_quantile_and_is_served(own, tmp_path):
    features = {"weight": {"steps": [{"clip": {"min": 0}}]}}
    job = make(features, model={"name": own, "params": {"quantile": 0.9}})
    transforms = Transforms(job, contents(job))
    params = {**job.model.params, "optimizer": optimizers.Updates("adam", 0.1)}
    found = models.model(own, params, None, transforms)
    rng = tf.random.Generator.from_seed(1)
    rows = {"weight": rng.uniform([2000]), "late": tf.cast(rng.uniform([2000], 0, 100), tf.int64)}

    def input_fn():
        data = tf.data.Dataset.from_tensors({n: v.numpy() for n, v in values.items()}).repeat(400)
        return data.map(lambda batch: transforms.examples(batch, training=True))

    values = rows
    config = tf.estimator.RunConfig(str(tmp_path / "run"), tf_random_seed=1)
    estimator = tf.estimator.Estimator(found.model_fn, config=config, params=params)
    estimator.train(input_fn)
    assert estimator.evaluate(input_fn, steps=1)["below"] == pytest.approx(0.9, abs=0.05)
    path = estimator.export_saved_model(str(tmp_path), exporters.serving_input_fn(transforms))
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    [answer] = serve(weight=tf.constant([0.5])).values()
    assert 75 < float(answer[0]) < 105
