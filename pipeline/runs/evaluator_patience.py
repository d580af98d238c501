"""Whether the chief stays until the run is evaluated, because a platform ends a job with it."""

from __future__ import annotations

from collections.abc import Mapping

# Set by a place that ends a job when its chief ends: for how many seconds without an evaluator the
# chief waits for one before it evaluates itself. A whole number.
VARIABLE = "PIPELINE_EVALUATOR_PATIENCE"
# A machine that was taken away may need as long to be replaced.
USUAL = 300
# What Vertex AI sets in each process of a training job, also of one that is not of our launcher:
# https://cloud.google.com/vertex-ai/docs/training/code-requirements#environment-variables
_OF_VERTEX = "CLOUD_ML_JOB_ID"


def seconds(environment: Mapping[str, str]) -> float | None:
    """Returns for how long a chief waits for an evaluator that gives no sign of life; `None` where
    a job continues without its chief."""
    given = environment.get(VARIABLE, "")
    if given.isdigit():
        return float(given)
    return float(USUAL) if _OF_VERTEX in environment else None
