"""What a worker process is forked from has imported all that it needs, Google's part aside."""

from __future__ import annotations

import subprocess
import sys


def test_it_brings_the_stages_and_starts_nothing():
    code = (
        "import preprocessing.runners.worker_main as worker, sys, threading; "
        "print('preprocessing.build.beam_pipeline' in sys.modules, "
        "'google.cloud.storage' in sys.modules, threading.active_count(), callable(worker.run))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True False 1 True\n", "")
