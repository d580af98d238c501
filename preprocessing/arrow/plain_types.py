"""Arrow's types as most of its functions take them, and Python too."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def cast(array: pa.Array, wanted: str) -> pa.Array:
    """Returns the same values, for a column of type `wanted`; dates and times as ISO 8601, or as
    numbers if the column has these: Python has no nanoseconds, so that such values cannot even be
    shown."""
    if isinstance(array.type, pa.BaseExtensionType):
        return cast(array.storage, wanted)
    kind = _choose_type(array.type, wanted)
    return array if array.type == kind else array.cast(kind)


def to_readable(array: pa.Array, wanted: str) -> pa.Array:
    """Returns the same, without the NaN that pandas and NumPy write where there is no value."""
    found = cast(array, wanted)
    if not pa.types.is_floating(found.type):
        return found
    return pc.if_else(pc.is_nan(found), pa.scalar(None, found.type), found)


def _choose_type(kind: pa.DataType, wanted: str) -> pa.DataType:
    known = pa.types
    if known.is_list(kind) or known.is_large_list(kind):
        return pa.list_(_choose_type(kind.value_type, wanted))
    if known.is_fixed_size_list(kind):
        return pa.list_(_choose_type(kind.value_type, wanted), kind.list_size)
    if known.is_string_view(kind) or known.is_binary_view(kind):
        return pa.string() if known.is_string_view(kind) else pa.binary()
    if known.is_temporal(kind) and (wanted == "int64" or known.is_duration(kind)):
        # Units since 1970, or of a duration. Arrow makes no numbers of what has 32 bits.
        return pa.int64() if kind.bit_width == 64 else kind
    if known.is_temporal(kind):
        return pa.string()
    return pa.float32() if known.is_float16(kind) else kind
