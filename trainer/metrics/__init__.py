"""Metrics with intervals, by slice, and their page."""
