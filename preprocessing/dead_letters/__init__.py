"""Rows that broke the schema, and their corrections."""
