"""What `make bench` measures, each figure against something a reader can check."""
