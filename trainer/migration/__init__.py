"""From a run to a Keras model."""
