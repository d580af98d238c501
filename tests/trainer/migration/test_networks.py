"""Which models become Keras networks, and how features find their inputs."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config.model_config import Model
from pipeline.models import MODELS
from trainer.migration import networks


@pytest.mark.parametrize("name", MODELS)
def test_all_that_is_shipped_can_be_migrated(name):
    networks.check(Model(name=name))


def test_code_of_ones_own_is_refused_with_what_to_do():
    with pytest.raises(
        errors.UsageError,
        match=r"model.name 'mine:model_fn': is code of your own .* train that with model.name: "
        r"keras, beginning with these parameters \(model.warm_start with names\)",
    ):
        networks.check(Model(name="mine:model_fn"))
