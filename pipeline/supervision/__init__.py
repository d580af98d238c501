"""Keeps the processes of a run going: restarts, hangs, ports, and the record of it."""
