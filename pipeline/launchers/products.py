"""How fast the devices of this machine multiply matrices, by size and data type."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

from pipeline import errors

SIZES = (256, 1024, 2048)
DTYPES = ("float64", "float32", "bfloat16")
_LEAST_SECONDS, _TOGETHER = 0.2, 4
_MOST = 16384  # a matrix of float64 then takes 2 GiB


@dataclasses.dataclass(frozen=True)
class Product:
    """What `size` x `size` matrices of a data type came to, and the device that TensorFlow placed
    the product on, such as `CPU:0`."""

    size: int
    dtype: str
    device: str
    flops: float

    def __str__(self) -> str:
        what = f"{self.size}x{self.size} {self.dtype} matrix product"
        return f"{self.device}: {what} at {self.flops / 1e9:,.4g} GFLOP/s"


def devices(wanted: str | None = None) -> list[str]:
    """Returns the names of all devices that multiply, or of the `wanted` one, such as `gpu:0`.
    Raises `UsageError` if there is no such device."""
    import tensorflow as tf

    kinds = map(tf.config.list_logical_devices, ("CPU", "GPU"))
    found = [shorten_device(device.name) for listed in kinds for device in listed]
    if wanted is None:
        return found
    name = wanted.lstrip("/").removeprefix("device:").upper()
    name = name if ":" in name else f"{name}:0"
    if name not in found:
        raise errors.UsageError(f"--device={wanted}: this machine has {', '.join(found)}")
    return [name]


def check_sizes(sizes: Sequence[str]) -> list[int]:
    """Returns sizes as numbers. Raises `UsageError` for an invalid one."""
    for size in sizes:
        if not (size.isascii() and size.isdigit() and 1 <= int(size) <= _MOST):
            raise errors.UsageError(
                f"--size={size}: must be rows of a square matrix, 1 to {_MOST:,}, such as 1024"
            )
    return list(map(int, sizes))


def measure(
    names: Sequence[str], sizes: Sequence[int], clock: Callable[[], float] = time.perf_counter
) -> Iterator[Product]:
    """Yields the products of each device, size and data type as they are measured."""
    for name in names:
        for size in sizes:
            for dtype in DTYPES:
                yield product(name, size, dtype, clock=clock)


def product(
    device: str, size: int, dtype: str, *, clock: Callable[[], float] = time.perf_counter
) -> Product:
    """Multiplies two matrices at least four times, for a fifth of a second or more."""
    import tensorflow as tf

    with tf.device(f"/{device}"):
        matrix = tf.cast(tf.random.stateless_normal([size, size], seed=[1, 2]), dtype)
        result = tf.linalg.matmul(matrix, matrix)
        result[0, 0].numpy()  # the first one sets the device up
        start, repeats = clock(), 0
        while not repeats or clock() - start < _LEAST_SECONDS:
            for _ in range(_TOGETHER):
                result = tf.linalg.matmul(matrix, matrix)
            result[0, 0].numpy()  # waits for the device
            repeats += _TOGETHER
        seconds = clock() - start
    return Product(
        size, dtype, shorten_device(result.device), repeats * 2.0 * size**3 / max(seconds, 1e-9)
    )


def shorten_device(device: str) -> str:
    """Returns `CPU:0` of `/device:CPU:0`."""
    return device.rpartition("device:")[2]
