"""pandas reads, `tf.train.Example` encodes, as in `pyarrow_by_hand`."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.peers import measure
from benchmarks.peers.table import written


def _iterate_rows(frame: Any) -> Iterator[dict[str, Any]]:
    names = list(frame.columns)
    for values in frame.itertuples(index=False, name=None):
        yield dict(zip(names, values, strict=True))


def convert(given: dict[str, Any], folder: pathlib.Path) -> None:
    """Makes the records."""
    import pandas as pd

    frame = pd.read_parquet(given["table"], columns=list(given["columns"]), dtype_backend="pyarrow")
    whole = frame.astype(dict.fromkeys(frame.columns, object))
    frame = whole.where(frame.notna(), None)
    written.write(_iterate_rows(frame), given, folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        settings = measure.read_settings()
        measure.report(**written.measure_conversion(convert, settings, pathlib.Path(made)))
