"""Binary arrays by their buffers: slices and empty ones are where that goes wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.arrow import binary

_VALUES = [b"", b"abc", b"d", b"", b"ef"]


@pytest.fixture(params=[pa.binary(), pa.large_binary()])
def array(request):
    return pa.array(_VALUES, request.param)


@pytest.mark.parametrize(("start", "length"), [(0, 5), (1, 3), (3, 1), (4, 1), (2, 0)])
def test_slices_keep_values_lengths_and_bytes(array, start, length):
    part, expected = array.slice(start, length), _VALUES[start : start + length]
    assert binary.copy_values(part) == expected
    assert [view.tobytes() for view in binary.iterate_views(part)] == expected
    assert binary.compute_lengths(part).tolist() == [len(value) for value in expected]
    assert binary.view_data(part).tobytes() == b"".join(expected)


def test_an_empty_array_has_no_values(array):
    empty = pa.array([], array.type)
    assert binary.copy_values(empty) == []
    assert list(binary.iterate_views(empty)) == list(binary.iterate_copies(empty)) == []
    assert binary.view_data(empty).size == 0


def test_cut_rebuilds_an_array_from_bytes_and_lengths():
    content = np.frombuffer(b"".join(_VALUES), np.uint8)
    assert binary.cut(content, np.array([0, 3, 1, 0, 2])).to_pylist() == _VALUES
    assert binary.cut(content[:0], np.zeros(0, np.int64)).to_pylist() == []


def test_views_share_the_memory_of_the_array(array):
    assert np.shares_memory(list(binary.iterate_views(array))[1], binary.view_data(array))
