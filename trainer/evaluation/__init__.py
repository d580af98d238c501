"""Evaluation while training: the best checkpoint, early stopping, what was skipped."""
