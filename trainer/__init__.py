"""The training stage: an Estimator on records, on any topology."""
