"""Faults put into a real run from outside, and what becomes of it: `make chaos`, and the soak of
the tests."""
