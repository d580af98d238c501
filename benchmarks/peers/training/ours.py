"""This project: `make train` in a single process, with checkpoints, summaries and the ledger."""

from __future__ import annotations

from benchmarks.peers import measure
from benchmarks.peers.training import launched

if __name__ == "__main__":
    measure.report(**launched.train(measure.read_settings(), "--strategy=none"))
