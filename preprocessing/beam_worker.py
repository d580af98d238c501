"""A worker process of a local run: Beam's own, kept from writing to the terminal.

What a worker has to say reaches the driver over gRPC; on the terminal it would be in the way of
the progress bar, and every error would be there twice.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys

# Importing Beam logs a warning about a package it can do without; with a handler here it does
# not set up one that prints.
logging.getLogger().addHandler(logging.NullHandler())

from apache_beam.runners.worker import sdk_worker_main  # noqa: E402

if __name__ == "__main__":
    # Beam prints the traceback of a failed bundle as well as sending it. What makes `main` itself
    # fail is printed, because it leaves this block first.
    with contextlib.redirect_stderr(io.StringIO()):
        sdk_worker_main.main(sys.argv)
