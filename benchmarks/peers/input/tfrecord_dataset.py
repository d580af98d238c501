"""`TFRecordDataset` with a shuffle buffer, as in the loops by hand: no place to go back to, so a
run that resumes begins the epoch again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.peers.input import reading
from benchmarks.peers.training import tf_input

_SHUFFLED = 10_000  # records


class Reader:
    """Has no state."""

    def __init__(self, given: dict[str, Any]) -> None:
        rows = tf.data.TFRecordDataset(given["records"]["train"]).shuffle(_SHUFFLED, seed=1)
        parse = tf_input.build_parser(given, key="row")
        parallel = tf.data.AUTOTUNE
        batches = rows.batch(given["batch_size"]).map(parse, num_parallel_calls=parallel)
        self._rows = batches.prefetch(2)

    def epoch(self, number: int) -> Iterator[Any]:
        """Yields the batches of an epoch."""
        yield from self._rows

    def keys(self, batch: Any) -> np.ndarray:
        """Returns the column `row`."""
        found: np.ndarray = batch[0]["row"].numpy()
        return found

    def state(self) -> None:
        """Returns nothing."""

    def restore(self, state: Any) -> None:
        """Is never called."""


if __name__ == "__main__":
    reading.main(Reader)
