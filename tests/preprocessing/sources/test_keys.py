"""Keys name file and row, and do not say how the file is packed."""

from __future__ import annotations

import numpy as np
import pytest

from preprocessing.sources import keys


@pytest.mark.parametrize("file", ["train/files/a.csv", "train/files/a.csv.gz", "train/files/a.csv"])
def test_keys(file):
    found = keys.of_rows(file, np.array([0, 17]))
    assert found.to_pylist() == [b"train/files/a.csv/0", b"train/files/a.csv/17"]


def test_no_rows():
    assert keys.of_rows("a", np.array([], np.int64)).to_pylist() == []
