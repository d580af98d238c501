"""What an evaluation reads of each record besides the features of the model."""

from __future__ import annotations

import pytest

from pipeline.config import config_file
from trainer.input import grouping, slicing


@pytest.fixture(scope="module")
def grouped():
    return config_file.load("flights", ["eval.group=tailnum"])


def test_columns_are_those_of_slices_and_of_groups(grouped):
    assert list(slicing.list_columns(grouped, ["origin"])) == ["origin", "tailnum"]
    assert slicing.list_columns(config_file.load("flights"), []) == {}


def test_its_features_are_told_from_those_of_the_model(grouped):
    names = slicing.list_names(grouped, ["origin"])
    assert names == [slicing.SLICE + "origin", grouping.FEATURE]
    assert all(map(slicing.is_extra, [*names, slicing.THERE + "late"]))
    assert not any(map(slicing.is_extra, grouped.features))
