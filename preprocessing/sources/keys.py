"""Keys of rows: values of some of their columns, or the file they are in and their number in it."""

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


def of_columns(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.BinaryArray:
    """Joins the values of columns. No text holds a NUL, so two different keys are never one."""
    texts = [batch.column(name).cast(pa.string()).cast(pa.binary()) for name in names]
    filled = [text.fill_null(b"") for text in texts]
    return pc.binary_join_element_wise(*filled, pa.scalar(b"\0", pa.binary()))
