"""Processes of this machine: forked from one that has TensorFlow, and asked to stop by signals."""
