"""Records of gs://: a service on loopback that takes 20 ms for each answer, and one worker of two.

The service is the double of the tests. What is measured is how many requests are under way at once,
not how fast Cloud Storage is.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile

from benchmarks.result import Result
from tests.cloud import reader
from tests.cloud.fixtures import BUCKET, build_cloud
from tests.cloud.service import Service

_DELAY = 0.02  # seconds
_LEAST = 20_000.0  # records a second
_SHARDS, _BLOCKS, _BATCHES, _ROUNDS = 8, 40, 400, 3


def run(storage_root: str) -> list[Result]:
    """Measures the records/s of one worker."""
    del storage_root  # all of it is in memory
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder)
        with Service(made, BUCKET) as service:
            cloud = build_cloud(service, "bench")
            reader.put(cloud, made / "made", shards=_SHARDS, records=_BLOCKS * reader.BLOCK)
            service.api.delay = _DELAY
            found = [reader.run(cloud, _BATCHES) for _ in range(_ROUNDS)]
    rate = statistics.median(one["records"] / one["seconds"] for one in found)
    return [
        Result(
            name="gs:// records/s of a worker",
            value=rate,
            unit="records/s",
            against=_LEAST,
            goal=">= 1",
            peer="20,000, at 20 ms a request",
            gap="the machine is busy, or blocks are read one after the other",
        )
    ]
