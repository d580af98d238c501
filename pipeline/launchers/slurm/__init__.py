"""Slurm: the job script, what runs in its allocation, and how a job is followed.

- Submitting and following: `launcher`, `script`, `settings`, `extra_workers`, `preprocess_job`; of
  several runs as one job: `array`, `elements`.
- Asking Slurm: `commands`; what its answers mean: `advice` (what to do), `waits` (whether a job
  ever starts).
- In the allocation: `main` (one part of a job), `batch` (the first node), `requeues`, `steps`,
  `step_watch` and `step_end` (one that hangs), `check` (a node), `ranks`, `agent` (a process); what
  they print: `output`.
- Workers that join: `joined`, `places`, `relay`.
"""
