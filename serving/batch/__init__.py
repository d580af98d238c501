"""Predictions for files and folders, by Beam."""
