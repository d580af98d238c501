"""MosaicML Streaming: MDS shards, its own shuffle, two processes that load."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers.input import reading


def _import_streaming() -> Any:
    """Returns the package. Its parts for images import two names of torchvision, which does not fit
    the CPU build of torch; nothing here uses them."""
    parts = ("", ".datasets", ".transforms", ".transforms.functional")
    for name in (f"torchvision{part}" for part in parts):
        spec = importlib.machinery.ModuleSpec(name, None)
        sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.modules["torchvision.datasets"].VisionDataset = object
    sys.modules["torchvision.transforms.functional"].to_tensor = None
    import streaming
    import streaming.base.util

    return streaming


def _write(folder: pathlib.Path, rows: np.ndarray) -> None:
    shutil.rmtree(folder)
    with _import_streaming().MDSWriter(out=str(folder), columns={"row": "bytes"}) as writer:
        for row in rows:
            writer.write({"row": row.tobytes()})


class Reader:
    """State is the loader's own."""

    def __init__(self, given: dict[str, Any]) -> None:
        folder = reading.convert_once(given, "mds", _write)
        streaming = _import_streaming()
        # What a killed process leaves keeps the next from starting.
        streaming.base.util.clean_stale_shared_memory()
        rows = streaming.StreamingDataset(
            local=str(folder),
            shuffle=True,
            shuffle_seed=given["seed"],
            batch_size=given["batch_size"],
            num_canonical_nodes=1,
        )
        self._loader = streaming.StreamingDataLoader(
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
