"""Wide & deep in one process: a program for each peer."""
