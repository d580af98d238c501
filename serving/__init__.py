"""Predictions of exported models, for files and over REST."""
