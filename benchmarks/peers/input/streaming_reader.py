"""MosaicML Streaming: MDS shards, its own shuffle, two processes that load."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from benchmarks.peers.input import reading


def _write(folder: pathlib.Path, rows: np.ndarray) -> None:
    shutil.rmtree(folder)
    with MDSWriter(out=str(folder), columns={"row": "bytes"}) as writer:
        for row in rows:
            writer.write({"row": row.tobytes()})


class Reader:
    """State is the loader's own."""

    def __init__(self, given: dict[str, Any]) -> None:
        folder = reading.convert_once(given, "mds", _write)
        clean_stale_shared_memory()  # what a killed process leaves keeps the next from starting
        rows = StreamingDataset(
            local=str(folder),
            shuffle=True,
            shuffle_seed=given["seed"],
            batch_size=given["batch_size"],
            num_canonical_nodes=1,
        )
        self._loader = StreamingDataLoader(
            rows,
            batch_size=given["batch_size"],
            num_workers=2,
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
