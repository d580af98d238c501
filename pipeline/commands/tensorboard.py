"""Shows the curves of all runs with TensorBoard.

    estimator-pipeline tensorboard [--storage=output] [--port=6006]

It is for this machine alone; Ctrl-C ends it.
"""

from __future__ import annotations

import os
import sys

from pipeline import cli, storage
from pipeline.processes import environment

_STORAGE = cli.storage_flag()
_WARNING = "-Wignore:pkg_resources is deprecated:UserWarning"  # of TensorBoard itself
_PORT = cli.port_flag(6006)


def main() -> None:
    """Becomes TensorBoard."""
    folder = storage.join(_STORAGE.value, "runs")
    command = [sys.executable, _WARNING, "-m", "tensorboard.main"]
    command += [f"--logdir={folder}", f"--port={_PORT.value}"]
    os.execve(sys.executable, command, {**environment.QUIET, **os.environ})


if __name__ == "__main__":
    cli.run(main)
