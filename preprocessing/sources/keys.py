"""Keys of rows that have no name of their own: the file they are in, and their number in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PACKED = (".gz", ".zip")


def of_rows(file: str, numbers: np.ndarray) -> pa.BinaryArray:
    """Returns keys like `train/files/a.csv/123`, the same if the file is packed or not."""
    for suffix in _PACKED:
        file = file.removesuffix(suffix)
    prefix = pa.scalar(f"{file}/".encode(), pa.binary())
    texts = pa.array(numbers, pa.int64()).cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(prefix, texts, pa.scalar(b"", pa.binary()))
