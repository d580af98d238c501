"""A small job on IDX files."""

from __future__ import annotations

import pathlib

import pytest

from pipeline import config
from tests.preprocessing import idx_files
from tests.preprocessing.build.runs import ROWS


@pytest.fixture
def tiny(tmp_path) -> config.Config:
    raw = tmp_path / "raw"
    return idx_files.make_config(
        {
            "train": idx_files.write_pair(raw, "train", ROWS),
            "test": idx_files.write_pair(raw, "test", 20, packed=True),
        }
    )


@pytest.fixture
def root(tmp_path) -> pathlib.Path:
    return tmp_path / "output"
