"""Which metrics of an evaluation are of too few records to say anything: as many as would get no
interval by `make evaluate`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipeline.console.figures import FEW, TOO_FEW

# They need records of both labels, of two classes.
_OF_BOTH = ("auc", "average_precision")
_OF_POSITIVES = ("calibration",)


def describe_shortage(name: str, metrics: Mapping[str, float], records: int | None) -> str:
    """Returns that a metric of so many records, one among the `metrics` of a split, is of too few
    of them, and how many they are; an empty string if it is not, or if they were not counted."""
    if not records or name == "global_step":
        return ""
    if records < FEW:
        return f"{TOO_FEW} records: {records}"
    label, slash, own = name.rpartition("/")
    rate = metrics.get(f"{label}{slash}label/mean", math.nan)
    if own not in (*_OF_BOTH, *_OF_POSITIVES) or not 0 <= rate <= 1:
        return ""
    positives = round(rate * records)
    fewest = positives if own in _OF_POSITIVES else min(positives, records - positives)
    return f"{TOO_FEW} records: {fewest} of one label" if fewest < FEW else ""
