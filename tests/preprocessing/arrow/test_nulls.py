"""Nulls in place of some values, in slices too."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from preprocessing.arrow import nulls

SLICED = """
import numpy as np, pyarrow as pa
from preprocessing.arrow import nulls
texts = [None if n % 7 == 0 else str(n) for n in range(600)]
where = np.arange(600) % 5 == 0
for kind in (pa.string(), pa.large_string()):
    made = nulls.put_null(pa.array(texts, kind).slice(256), where[256:])
    made.validate(full=True)
    assert made.to_pylist() == [None if w else t for t, w in zip(texts, where)][256:]
"""


@pytest.mark.parametrize("byte", ["48", "165"])
def test_of_a_slice_of_texts_no_other_memory_is_read(byte):
    """Memory that is not of the array is full of one byte."""
    variables = {"MALLOC_PERTURB_": byte, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = ["env", *(f"{name}={value}" for name, value in variables.items())]
    done = subprocess.run([*command, sys.executable, "-c", SLICED], capture_output=True, text=True)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_binary(), pa.int64()])
def test_of_each_type(kind):
    array = pa.array(["1", None, "3"]).cast(kind)
    made = nulls.put_null(array, pa.array([True, None, False]))
    assert made.is_null().to_pylist() == [True, True, False]
    assert made[2] == array[2]


def test_of_lists():
    lists = pa.array([[1], None, [2, 3]])
    assert nulls.put_null(lists, [False, False, True]).to_pylist() == [[1], None, None]
