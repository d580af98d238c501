"""Kubernetes: jobs are JobSets, submitted by kubectl."""
