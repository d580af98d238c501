"""The fork server of a local run's worker processes; it can start before Beam is imported."""

from __future__ import annotations

import os

from pipeline.processes.fork_client import ForkServer


def start(cloud: bool = True) -> ForkServer:
    """Starts a fork server, which imports Beam while the caller does.

    `cloud` is that of `import_beam`. When the server is closed all that it has forked is gone. What
    the processes print is dropped.
    """
    preload = "preprocessing.build.beam_pipeline" if cloud else "preprocessing.runners.worker_main"
    return ForkServer(preload, log=os.devnull, environment=os.environ)
