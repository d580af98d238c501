"""Exported models, and the proof that they equal the trained one."""
