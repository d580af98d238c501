"""Combines CRC-32Cs of parts into that of the whole, like `crc32_combine` of zlib."""

from __future__ import annotations

import functools

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits reversed


def combine(first: int, second: int, length: int) -> int:
    """Returns the CRC-32C of two parts from that of each; the second has `length` bytes."""
    power = 0
    while length:
        if length & 1:
            first = _multiply_vector(_build_zeros(power), first)
        length, power = length >> 1, power + 1
    return first ^ second


@functools.lru_cache(maxsize=64)
def _build_zeros(power: int) -> tuple[int, ...]:
    """Returns what `2 ** power` zero bytes do to a CRC, as a matrix of 32 columns of bits."""
    if power:
        half = _build_zeros(power - 1)
    else:
        half = (_POLYNOMIAL, *(1 << bit for bit in range(31)))  # one zero bit
        for _ in range(2):
            half = tuple(_multiply_vector(half, column) for column in half)
    return tuple(_multiply_vector(half, column) for column in half)


def _multiply_vector(matrix: tuple[int, ...], vector: int) -> int:
    product = 0
    for column in matrix:
        if vector & 1:
            product ^= column
        vector >>= 1
    return product
