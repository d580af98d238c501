"""From encoded rows to shards: spilling, merging, publishing."""
