"""Two runs compared: predictions of both for the same records, and what else differs."""
