"""Which copy of the model is being built, where a strategy builds several, one after the other."""

from __future__ import annotations

import tensorflow as tf


def get_index() -> int:
    """Returns the index of the replica in whose context this is called; 0 without a strategy."""
    context = tf.distribute.get_replica_context()
    replica = context.replica_id_in_sync_group  # a tensor, of several
    return int(tf.get_static_value(tf.convert_to_tensor(replica)))
