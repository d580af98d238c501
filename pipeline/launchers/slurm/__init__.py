"""Slurm: the job script, what runs in its allocation, and how a job is followed."""
