"""What runs inside a Slurm job, by its part:

  python -m pipeline.launchers.slurm.main --part=batch --run=… --storage=…

`batch` is what the script runs, on the first node; it has Slurm start `check` on each node, and
`agent` for each process of the run. `element` is the same for one run of an array, and `joined` a
worker that joins from a job of its own.
"""

from __future__ import annotations

import os

from absl import flags

from pipeline import cli, storage
from pipeline.launchers.slurm import agent, batch, check, elements, joined
from pipeline.runs import run_folder

_PART = flags.DEFINE_enum(
    "part", None, ["batch", "element", "check", "agent", "joined"], "See above.", required=True
)
_RUN = flags.DEFINE_string("run", None, "Name of the run.", required=True)
_STORAGE = cli.storage_flag()
_PORT = flags.DEFINE_integer("port", 0, "First of the ports to check.")
_WORKER = flags.DEFINE_integer("worker", 0, "Which worker it is that joins.")
_PORTS = flags.DEFINE_integer("ports", 0, "How many ports to check.")


def main() -> None:
    """Runs the part that is asked for."""
    root = storage.make_absolute(_STORAGE.value)
    run = run_folder.RunFolder(run_folder.run_folder(root, _RUN.value))
    if _PART.value == "check":
        check.run_part(run, _PORT.value, _PORTS.value)
    elif _PART.value == "agent":
        agent.run_part(run, root)
    elif _PART.value == "joined":
        joined.run_part(run, root, _WORKER.value)
    elif _PART.value == "element":
        batch.run_part(run, root, index=elements.index_of(os.environ))
    else:
        batch.run_part(run, root)


if __name__ == "__main__":
    cli.run(main, outlives_reader=True)
