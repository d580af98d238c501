"""A worker process of a local run: Beam's own, which ends with the process that it works for.

Its output goes nowhere. What a worker has to say reaches the driver over gRPC; on the terminal it
would be in the way of the progress bar, and every error would be there twice.
"""

from __future__ import annotations

import sys

from preprocessing.runners import error_transport, lifeline
from preprocessing.runners.beam_import import import_beam


def run(folder: str, *, cloud: bool) -> None:
    """Works for the runner that the environment names until it has no more work.

    `folder` is that of a lifeline; `cloud` is that of `import_beam`.
    """
    error_transport.listeners.append(lifeline.attach(folder))
    import_beam(cloud)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)
