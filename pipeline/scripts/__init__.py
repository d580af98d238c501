"""Runs of a script of the user's own: any command that learns its role from `TF_CONFIG`."""
