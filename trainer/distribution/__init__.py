"""Strategies, placement of variables, and sessions."""
