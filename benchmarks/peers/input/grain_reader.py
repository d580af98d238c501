"""Grain over ArrayRecord files: a global shuffle by index, read in the process itself."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from benchmarks.peers.input import reading


def _write(folder: pathlib.Path, rows: np.ndarray) -> None:
    writer = ArrayRecordWriter(str(folder / "train.array_record"), "group_size:1,uncompressed")
    for row in rows:
        writer.write(row.tobytes())
    writer.close()


class Reader:
    """State is the iterator's own."""

    def __init__(self, given: dict[str, Any]) -> None:
        folder = reading.convert_once(given, "array_record", _write)
        source = grain.sources.ArrayRecordDataSource([str(folder / "train.array_record")])
        self._rows = (
            grain.MapDataset.source(source)
            .shuffle(seed=given["seed"])
            .batch(given["batch_size"], batch_fn=lambda batch: reading.split_features(batch, given))
            .to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8))
        )
        self._state: Any = None
        self._batches: Any = None

    def epoch(self, number: int) -> Iterator[Any]:
        """Yields the batches of an epoch."""
        self._batches = iter(self._rows)
        if self._state is not None:
            self._batches.set_state(self._state)
        yield from self._batches

    def keys(self, batch: Any) -> np.ndarray:
        """Returns the keys of the rows."""
        found: np.ndarray = batch["key"]
        return found

    def state(self) -> Any:
        """Returns where the iterator is."""
        return self._batches.get_state()

    def restore(self, state: Any) -> None:
        """Begins the next epoch there."""
        self._state = state


if __name__ == "__main__":
    reading.main(Reader)
