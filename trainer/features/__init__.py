"""Features of columns, in the graph: values packed and lists padded, the steps of the config, and
what makes columns and vectors of them, by names that TensorFlow takes."""
