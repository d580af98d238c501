"""The fork server of a local run's worker processes; it can start before Beam is imported."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from pipeline.processes import ForkServer


@contextlib.contextmanager
def started(cloud: bool = True) -> Iterator[tuple[ForkServer, str]]:
    """Starts a fork server, which imports Beam while the caller does; also gives its log.

    `cloud` is that of `import_beam`. At the end it is gone, and with it all that it has forked.
    """
    preload = "preprocessing.stages" if cloud else "preprocessing.beam_worker"
    with tempfile.TemporaryDirectory(prefix="workers-") as folder:
        log = os.path.join(folder, "log")
        with ForkServer(preload, log=log, environment=os.environ) as server:
            yield server, log
