"""This project with asynchronous parameter servers: the chief trains, too. Without servers it is
one process. It writes checkpoints, and counts which records it has used."""

from __future__ import annotations

from benchmarks.peers import measure
from benchmarks.peers.training import launched


def list_flags(trainers: int, servers: int) -> list[str]:
    """Returns the flags of a run with that many processes."""
    if not servers:
        return ["--strategy=none"]
    return ["--strategy=parameter_server", f"--workers={trainers - 1}", f"--ps={servers}"]


if __name__ == "__main__":
    measure.report(**launched.train(measure.read_settings(), *list_flags(*measure.read_sizes())))
