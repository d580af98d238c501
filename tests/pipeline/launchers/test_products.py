"""Matrix products: what is measured, and what is refused."""

from __future__ import annotations

import itertools

import pytest

from pipeline import errors
from pipeline.launchers import products


def test_the_rate_is_floating_point_operations_a_second():
    seconds = itertools.count(step=0.25)
    found = products.product("CPU:0", 10, "float32", clock=lambda: next(seconds))
    # Four products of 10 * 10 * (10 multiplications + 10 additions), until the clock is looked at.
    assert found == products.Product(10, "float32", "CPU:0", flops=4 * 2000 / 0.5)
    assert str(found) == "CPU:0: 10x10 float32 matrix product at 1.6e-05 GFLOP/s"


@pytest.mark.parametrize("device", ["gpu:7", "tpu", "cpu:1", "x", ""])
def test_a_device_that_does_not_exist(device):
    with pytest.raises(errors.UsageError, match=f"^--device={device}: this machine has CPU:0"):
        products.devices(device)


@pytest.mark.parametrize("device", ["cpu", "/cpu:0", "CPU:0", "/device:CPU:0"])
def test_ways_to_name_a_device(device):
    assert products.devices(device) == ["CPU:0"]


@pytest.mark.parametrize("size", ["0", "-1", "1e3", "20000", "", "x"])
def test_sizes_that_no_matrix_has(size):
    with pytest.raises(errors.UsageError, match=rf"^--size={size}: must be rows .* 1 to 16,384"):
        products.check_sizes(["8", size])
