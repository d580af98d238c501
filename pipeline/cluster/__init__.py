"""Which processes a run has, which of them this is, and what fits together."""
