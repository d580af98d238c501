"""What `make bench-peers` runs: this project next to others, each in an environment of its own."""
