"""What of TensorFlow's log is written."""

from __future__ import annotations

import subprocess
import sys

from tests.pipeline.process_help import ROOT, child_environment

PROGRAM = """
from trainer.monitoring import tf_logging
import tensorflow as tf
tf_logging.configure_logging()
log = tf.compat.v1.logging
log.info("Using config: {'_session_config': gpu_options {\\n  allow_growth: true\\n}\\n}")
log.warning("It seems that global step (tf.train.get_global_step) has not been increased. Current")
log.warning("f is deprecated and will be removed in a future version.")
layers = tf.compat.v1.layers
with tf.Graph().as_default():
    layers.dropout(layers.dense(tf.ones([1, 1]), 1), training=True)
log.info("Loss for final step: %s.", 0.5)
"""


def test_warnings_without_an_action_are_left_out():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**child_environment(), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stderr.splitlines()
    assert line.endswith(" I Loss for final step: 0.5.")
