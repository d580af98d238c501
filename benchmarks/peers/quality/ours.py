"""This project: `make train` of a job as it is shipped, on a cluster of four processes."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.peers import measure


def main(given: dict[str, Any]) -> None:
    """Trains, and reads what the run has written."""
    storage, begun = pathlib.Path(given["storage"]), time.time()
    with tempfile.TemporaryDirectory(dir=storage / "peers") as folder:
        (pathlib.Path(folder) / "records").symlink_to(storage / "records")
        command = [sys.executable, "-m", "pipeline", "train", f"--config={given['job']}"]
        subprocess.run([*command, f"--storage={folder}"], check=True, stdout=sys.stderr)
        [result] = pathlib.Path(folder).glob("runs/*/RESULT.json")
        found = json.loads(result.read_text())
    measure.report(auc=found["metrics"]["test"]["auc"], seconds=time.time() - begun)


if __name__ == "__main__":
    main(measure.read_settings())
