"""A worker process imports what it needs, Google's part aside, and holds the lifeline."""

from __future__ import annotations

import subprocess
import sys

from preprocessing.runners import lifeline

_RUN = """\
import sys
from preprocessing.runners import beam_import, error_transport, worker_main
beam_import.import_beam(cloud=False)
from apache_beam.runners.worker import sdk_worker_main
sdk_worker_main.main = lambda _: print(
    "preprocessing.build.beam_pipeline" in sys.modules,
    "google.cloud.storage" in sys.modules,
    len(error_transport.listeners),
)
worker_main.run(sys.argv[1], cloud=False)
"""


def test_it_brings_the_stages_and_reports_errors():
    with lifeline.Lifeline(lambda _: None) as held:
        command = [sys.executable, "-c", _RUN, held.folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True False 1\n", "")
