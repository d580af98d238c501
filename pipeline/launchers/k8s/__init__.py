"""Kubernetes: a TFJob, which is only shown."""
