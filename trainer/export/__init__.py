"""Exported models, and the check that each answers as the trained one does."""
