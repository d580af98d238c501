"""Processes forked from one that has imported TensorFlow, and what they may see."""
