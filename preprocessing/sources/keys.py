"""Keys of rows: values of some of their columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def join_columns(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.BinaryArray:
    """Joins the values of columns. No text holds a NUL, so two different keys are never one."""
    texts = [batch.column(name).cast(pa.string()).cast(pa.binary()) for name in names]
    filled = [text.fill_null(b"") for text in texts]
    return pc.binary_join_element_wise(*filled, pa.scalar(b"\0", pa.binary()))
