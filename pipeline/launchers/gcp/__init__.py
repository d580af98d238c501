"""Vertex AI: jobs, their cost, and how they are followed."""
