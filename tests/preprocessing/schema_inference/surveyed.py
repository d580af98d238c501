"""Columns as a survey finds them."""

from __future__ import annotations

import pyarrow as pa

from preprocessing.schema_inference import profile


def survey_values(values, kind=None, **limits) -> profile.ColumnProfile:
    """Returns what is found of values, which are written as text."""
    found = profile.ColumnProfile(**limits)
    texts = [v if v is None or isinstance(v, list) else str(v).encode() for v in values]
    found.see(pa.array(texts, kind))
    found.resolve_empty(profile.TOKENS)
    return found
