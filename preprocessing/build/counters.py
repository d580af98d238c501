"""Beam's own counters of rows, which the page of a job shows on Dataflow, Flink and Spark.

They count the work of one job: what an earlier one has finished is not read again. The manifest has
the figures of the records.
"""

from __future__ import annotations

from apache_beam.metrics.metric import Metrics

from pipeline.config.splits import SplitName
from preprocessing.dead_letters import letter_files

NAMESPACE = "estimator-pipeline"


def count(split: SplitName, tally: letter_files.Tally) -> None:
    """Adds what became of rows that an input of `split` has given: `<split>_read`, `_dropped`,
    `_sampled_out`, `_truncated` and `_rejected`."""
    outcomes = {
        "read": tally.read,
        "dropped": tally.dropped,
        "sampled_out": tally.sampled,
        "truncated": tally.truncated.total(),
        "rejected": tally.rejected,
    }
    for outcome, rows in outcomes.items():
        if rows:
            Metrics.counter(NAMESPACE, f"{split}_{outcome}").inc(rows)
