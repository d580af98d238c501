"""TensorFlow Serving's REST API, to try a model out."""
