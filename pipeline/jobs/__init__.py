"""A job that is ready to start: its setup, how it is shown, and its end without a launcher."""
