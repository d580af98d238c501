"""A worker process of a local run: Beam's own, forked from a process that has imported all of it.

Its output goes nowhere. What a worker has to say reaches the driver over gRPC; on the terminal it
would be in the way of the progress bar, and every error would be there twice.
"""

from __future__ import annotations

import sys

from preprocessing.runners.beam_import import import_beam

import_beam(cloud=False)

from apache_beam.runners.worker import sdk_worker_main  # noqa: E402


def run() -> None:
    """Works for the runner that the environment names until it has no more work."""
    sdk_worker_main.main(sys.argv)
