"""This project's training input: blocks of records in the order of the seed, mixed and counted."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers import workload
from benchmarks.peers.input import reading
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.records import manifest
from trainer.exactly_once.reader import Position
from trainer.input import window_feed
from trainer.input.dataset import RecordDataset


class Reader:
    """State is what a checkpoint has: how many records of each block have been read."""

    def __init__(self, given: dict[str, Any]) -> None:
        folder = str(pathlib.Path(given["records"]["train"][0]).parent)
        # Each epoch is read from disk, as the others do.
        settings = [*workload.list_overrides(), "cluster.strategy=none", "train.cache_bytes=0"]
        self._job = config_file.load(workload.JOB, settings)
        self._records = RecordDataset(self._job, folder, manifest.read(folder))
        self._blocks = self._records.list_blocks("train")
        self._sizes = np.asarray(self._blocks.records)
        self._reached = np.zeros(len(self._sizes), np.int64)
        self._epoch = 0
        self._batches: Iterator[Any] | None = None

    def epoch(self, number: int) -> Iterator[Any]:
        """Yields batches until each record of the epoch has been read."""
        self._epoch = number
        if self._batches is None:
            task = topology.Task("chief", 0)
            place = Position(self._job, task, self._blocks, reached=self._reached.copy())
            self._batches = iter(self._records.build_train_input_fn(place.feed, 1)())
        left = int((self._sizes * (number + 1) - self._reached).sum())
        while left > 0:
            features, label = next(self._batches)
            blocks, places = (features[n].numpy() for n in (window_feed.BLOCK, window_feed.PLACE))
            np.maximum.at(self._reached, blocks, places)
            left -= len(blocks)
            yield features, label

    def keys(self, batch: Any) -> np.ndarray:
        """Returns the numbers of the records in the split. A batch may end with some of the next
        epoch, which are not of this one."""
        of = {n: batch[0][n].numpy() for n in (window_feed.BLOCK, window_feed.RECORD)}
        block = of[window_feed.BLOCK]
        there = batch[0][window_feed.PLACE].numpy() <= self._sizes[block] * (self._epoch + 1)
        firsts = np.cumsum(self._sizes) - self._sizes
        return (firsts[block] + of[window_feed.RECORD])[there]

    def state(self) -> Any:
        """Returns how many records of each block have been read, in all epochs."""
        return self._reached.copy()

    def restore(self, state: Any) -> None:
        """Continues behind them."""
        self._reached = state


if __name__ == "__main__":
    reading.main(Reader)
