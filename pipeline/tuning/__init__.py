"""Search for settings: what is tried, which trial trains on, and what came of all of them."""
