"""This project: `make preprocess`, with the rules of the columns, statistics, vocabularies, a
manifest with checksums, and splits by day."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.peers import measure
from benchmarks.peers.table import written
from benchmarks.peers.workload import JOB


def convert(given: dict[str, Any], folder: pathlib.Path) -> None:
    """Makes the records."""
    command = [sys.executable, "-m", "pipeline", "preprocess", f"--config={JOB}"]
    subprocess.run([*command, f"--storage={folder}"], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        settings = measure.read_settings()
        measure.report(**written.measure_conversion(convert, settings, pathlib.Path(made)))
