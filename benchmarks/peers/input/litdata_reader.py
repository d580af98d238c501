"""LitData: chunks of binary items, its own shuffle, two processes that load."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming.writer import BinaryWriter

from benchmarks.peers.input import reading


def _write(folder: pathlib.Path, rows: np.ndarray) -> None:
    writer = BinaryWriter(str(folder), chunk_bytes="4MB")
    for number, row in enumerate(rows):
        writer[number] = {"row": row.tobytes()}
    writer.done()
    writer.merge()


class Reader:
    """State is the loader's own."""

    def __init__(self, given: dict[str, Any]) -> None:
        folder = reading.convert_once(given, "litdata", _write)
        rows = StreamingDataset(str(folder), shuffle=True, seed=given["seed"])
        self._loader = StreamingDataLoader(
            rows,
            batch_size=given["batch_size"],
            num_workers=2,
            shuffle=True,
            collate_fn=lambda batch: reading.split_features([one["row"] for one in batch], given),
        )

    def epoch(self, number: int) -> Iterator[Any]:
        """Yields the batches of an epoch."""
        yield from self._loader

    def keys(self, batch: Any) -> np.ndarray:
        """Returns the keys of the rows."""
        found: np.ndarray = batch["key"]
        return found

    def state(self) -> Any:
        """Returns where the loader is."""
        return self._loader.state_dict()

    def restore(self, state: Any) -> None:
        """Goes back there."""
        self._loader.load_state_dict(state)


if __name__ == "__main__":
    reading.main(Reader)
