"""A model whose code has changed since its checkpoint was saved: a layer has another width."""

from __future__ import annotations

import re

import pytest

from tests.trainer import small_table
from tests.trainer.models import networks
from trainer.checkpoints import shapes

_CONFIG = re.sub(
    r"(?ms)^features:.*?^model:",
    "features:\n"
    "  delay: {of: dep time, steps: [{missing: {fill: 0}}, {z_score: {mean: 9, deviation: 3}}]}\n"
    "  carrier: {steps: [{vocabulary: {values: [AA, UA]}}]}\n"
    "model:",
    small_table.CONFIG,
)

AVERAGED = "train.optimizer={name: adam, learning_rate: 0.01, average: 0.9}"


def build(folder, *overrides, units=6, text=_CONFIG):
    """Returns the table with the model as it is now, and a checkpoint of it as it was."""
    tables = []
    for name, width in (("before", 8), ("after", units)):
        (folder / name).mkdir()
        model = f"{{network: '{networks.__name__}:mixed', arguments: {{units: {width}}}}}"
        model = f"model={{name: keras, params: {model}}}"
        tables.append(small_table.Table(folder / name, model, *overrides, text=text))
    before, after = tables
    return after, before.checkpoint


def expect_refusal(checkpoint):
    """Returns the context in which that checkpoint is refused for the shapes it has."""
    told = rf"^checkpoint '{re.escape(checkpoint)}': is of another model: its dense\S* has the "
    return pytest.raises(shapes.OtherShapes, match=told)
