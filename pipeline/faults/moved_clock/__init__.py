"""The time of day of a run, which can jump while it trains: a folder for PYTHONPATH."""
