"""How long the processes of a job wait for its chief when they start."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import config

# Set by a place that brings machines one after another: seconds, a whole number.
VARIABLE = "PIPELINE_START_PATIENCE"


def seconds(environment: Mapping[str, str], cluster: config.Cluster) -> float:
    """Returns for how many seconds a process waits for the chief's answer: as long as the place
    may need to bring its machine, and at least `cluster.start_wait_seconds`."""
    given = environment.get(VARIABLE, "")
    place = float(given) if given.isdigit() else 0.0
    return max(cluster.start_wait_seconds, place)
