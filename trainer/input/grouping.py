"""Which group a record is in, by the value of a column: a number, whatever the column holds."""

from __future__ import annotations

import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import compatibility

# The feature of an evaluation that holds the numbers; it is not for models.
FEATURE = "input/group"
# Records whose predictions are kept in memory, 13 bytes each and about 60 while they are sorted.
MOST = 20_000_000

# What a model must do for it.
NEEDS = "metrics by group need 'probabilities' of two classes"
# Of a record that has no value in the column.
MISSING = tf.int64.min


def compute_ids(values: tf.Tensor, column: config.Column) -> tf.Tensor:
    """Returns `[batch]` int64, equal for equal values of a column of whole numbers or texts. Texts
    become 63-bit fingerprints: of a million, two share one with a chance of 1 in 10 million."""
    found = values
    if column.type == "string":
        found = tf.strings.to_hash_bucket_fast(values, 2**63 - 1)
    if column.missing != "allow" or column.default is not None:
        return found
    # In the graph of an Estimator, == compares tensors as objects.
    absent = tf.equal(values, column.stands_for_missing)
    return tf.where(absent, tf.constant(MISSING, tf.int64), found)


def check(job: config.Config, split: str, records: int) -> None:
    """Raises `UsageError` if a split cannot be evaluated by `eval.group`: it has more records than
    fit in memory, or several replicas evaluate."""
    if job.eval.group is None:
        return
    if records > MOST:
        raise errors.UsageError(
            f"eval.group: split {split!r} has {records:,} records; metrics by group keep every "
            f"prediction in memory, of at most {MOST:,} records. Evaluate on fewer, or unset it"
        )
    compatibility.check_groups(job)
