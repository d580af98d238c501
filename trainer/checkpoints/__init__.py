"""Reading, writing, checking and removing checkpoints."""
