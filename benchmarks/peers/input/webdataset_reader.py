"""WebDataset: tar files in an order by chance and a shuffle buffer, two processes that load. It
has no place to go back to: a run that resumes begins the epoch again."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch.utils.data
import webdataset

from benchmarks.peers.input import reading

_SHUFFLED, _ROWS_OF_FILE = 10_000, 27_000


def _write(folder: pathlib.Path, rows: np.ndarray) -> None:
    pattern = str(folder / "train-%05d.tar")
    with webdataset.ShardWriter(pattern, maxcount=_ROWS_OF_FILE, verbose=0) as writer:
        for number, row in enumerate(rows):
            writer.write({"__key__": f"{number:09}", "bin": row.tobytes()})


class Reader:
    """Has no state."""

    def __init__(self, given: dict[str, Any]) -> None:
        folder = reading.convert_once(given, "tar", _write)
        files = sorted(map(str, folder.glob("*.tar")))
        rows = (
            webdataset.WebDataset(files, shardshuffle=len(files), seed=given["seed"])
            .shuffle(_SHUFFLED)
            .to_tuple("bin")
            .batched(given["batch_size"], collation_fn=lambda rows: [row for (row,) in rows])
            .map(lambda rows: reading.split_features(rows, given))
        )
        self._loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2)

    def epoch(self, number: int) -> Iterator[Any]:
        """Yields the batches of an epoch."""
        yield from self._loader

    def keys(self, batch: Any) -> np.ndarray:
        """Returns the keys of the rows."""
        return np.asarray(batch["key"])

    def state(self) -> None:
        """Returns nothing."""

    def restore(self, state: Any) -> None:
        """Is never called."""


if __name__ == "__main__":
    reading.main(Reader)
