"""How long the processes of a job wait for its chief when they start."""

from __future__ import annotations

from collections.abc import Mapping

# Set by a place that brings machines one after another: seconds, a whole number.
VARIABLE = "PIPELINE_START_PATIENCE"
BY_HAND = 300.0  # hosts are started by hand, in any order


def seconds(environment: Mapping[str, str]) -> float:
    """Returns for how many seconds a process waits for the chief's answer."""
    given = environment.get(VARIABLE, "")
    return max(BY_HAND, float(given)) if given.isdigit() else BY_HAND
