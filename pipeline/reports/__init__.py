"""What became of a run, derived from what its processes have left, as a page."""
