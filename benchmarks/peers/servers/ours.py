"""This project on asynchronous parameter servers: a chief and workers that train, and servers."""

from __future__ import annotations

from benchmarks.peers import measure
from benchmarks.peers.training import launched

if __name__ == "__main__":
    given = measure.settings()
    flags = [f"--workers={given['workers'] - 1}", f"--ps={given['servers']}"]
    measure.report(**launched.train(given, "--strategy=parameter_server", *flags))
