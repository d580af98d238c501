"""pyarrow reads, `tf.train.Example` encodes: no rules, no statistics, no vocabularies, and an order
that depends on the files."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

from benchmarks.peers import measure
from benchmarks.peers.table import written


def convert(given: dict[str, Any], folder: pathlib.Path) -> None:
    """Makes the records."""
    import pyarrow.parquet as pq

    batches = pq.ParquetFile(given["table"]).iter_batches(columns=list(given["columns"]))
    written.write((row for batch in batches for row in batch.to_pylist()), given, folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        settings = measure.read_settings()
        measure.report(**written.measure_conversion(convert, settings, pathlib.Path(made)))
