"""Nulls in place of some values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def put_null(array: pa.Array, where: pa.Array | np.ndarray) -> pa.Array:
    """Returns `array` with nulls `where` is true, `[rows]` bool.

    Arrow's `if_else` of null and a slice of texts that has nulls reads memory that is not theirs
    (seen in Arrow 23.0.1): texts are replaced by a mask.
    """
    mask, null = pa.array(where, pa.bool_()), pa.scalar(None, array.type)
    if isinstance(
        array, pa.StringArray | pa.BinaryArray | pa.LargeStringArray | pa.LargeBinaryArray
    ):
        return pc.replace_with_mask(array, mask.fill_null(False), null)
    return pc.if_else(mask, null, array)
