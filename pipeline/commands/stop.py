"""Asks a run to end: it saves, evaluates and exports what it has learned, then ends with exit 0.

  estimator-pipeline stop --run=NAME           the newest run without --run
  make stop [RUN=name]

Works from any host that sees the run folder. `make train` with the same RUN= continues later. The
processes of a script get SIGTERM.
"""

from __future__ import annotations

import time

from absl import flags

from pipeline import cli
from pipeline.launchers import remote_jobs
from pipeline.runs import run_search, stopping

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_CONFIG = flags.DEFINE_string("config", None, "The newest run of this config, if no run is named.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")


def main() -> None:
    """Writes the stop file."""
    config = _CONFIG.value or None
    run = run_search.find_run(_STORAGE.value, _RUN.value or None, config, scripts=True)
    done = remote_jobs.stop(run)
    if done is None:
        done = stopping.ask(run, now=time.time())
    print(f"run {run.name}: {done}")


if __name__ == "__main__":
    cli.run(main)
