"""What TensorFlow logs, less secrets and what no user of Estimators can act on."""

from __future__ import annotations

import logging
import re
import warnings

import tensorflow as tf

from pipeline import redaction

# Every Estimator call is deprecated; that is why TensorFlow is pinned. The settings, 15 lines each
# time, follow from config.yaml. Of the step, processes read what the chief has yet to count.
_NOISE = re.compile(
    "is deprecated and will be removed in a future version|^Using config: |"
    "^It seems that global step .* has not been increased"
)


class _Redacting(logging.Formatter):
    """Hides secrets: Estimator logs all of its settings
    (docs/tensorflow-pitfalls.md#settings-in-the-log)."""

    def format(self, record: logging.LogRecord) -> str:
        return redaction.redact(super().format(record))


def configure_logging(*, verbose: bool = True) -> None:
    """Logs at INFO (errors only if not `verbose`) with times, without deprecation notices."""
    levels = tf.compat.v1.logging
    levels.set_verbosity(levels.INFO if verbose else levels.ERROR)
    logger = tf.get_logger()
    logger.propagate = False
    for handler in logger.handlers:
        handler.setFormatter(_Redacting("%(asctime)s %(levelname).1s %(message)s"))
    logger.addFilter(lambda record: not _NOISE.search(record.getMessage()))
    # Keras warns of the layers that Estimators are made of through Python, with a line of code.
    warnings.filterwarnings("ignore", r"`tf\.layers\.\w+` is deprecated", UserWarning)
