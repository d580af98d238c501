"""Shows the curves of all runs with TensorBoard.

    estimator-pipeline tensorboard [--storage=output] [--port=6006]

It is for this machine alone; Ctrl-C ends it.
"""

from __future__ import annotations

import os
import sys

from absl import flags

from pipeline import cli, storage

_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written, local or gs://.")
_PORT = flags.DEFINE_string("port", "6006", "Where to listen.")


def main() -> None:
    """Becomes TensorBoard."""
    folder = storage.join(_STORAGE.value, "runs")
    command = [sys.executable, "-m", "tensorboard.main"]
    os.execv(sys.executable, [*command, f"--logdir={folder}", f"--port={_PORT.value}"])


if __name__ == "__main__":
    cli.run(main)
