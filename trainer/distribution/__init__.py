"""Strategies, placement of variables, sessions, and tf.data's autotuner, which is kept out."""
