"""What TensorFlow logs, less what no user of Estimators can act on."""

from __future__ import annotations

import logging
import re

import tensorflow as tf

# Every Estimator call is deprecated; that is why TensorFlow is pinned.
_NOISE = re.compile(r"is deprecated and will be removed in a future version")


def configure_logging() -> None:
    """Logs at INFO with a time on each line, and without the deprecation notices."""
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    logger = tf.get_logger()
    logger.propagate = False
    for handler in logger.handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(message)s"))
    logger.addFilter(lambda record: not _NOISE.search(record.getMessage()))
