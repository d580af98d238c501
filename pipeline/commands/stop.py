"""Asks a run to end: it saves, evaluates and exports what it has learned, then ends with exit 0.

    estimator-pipeline stop --run=NAME           the newest run without --run
    make stop [RUN=name]

Works from any host that sees the run folder. `make train` with the same RUN= continues later. The
processes of a script get SIGTERM.
"""

from __future__ import annotations

import time

from pipeline import cli
from pipeline.launchers import remote_jobs
from pipeline.runs import run_search, stopping

_RUN, _CONFIG, _STORAGE = cli.run_flags()


def main() -> None:
    """Writes the stop file."""
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, scripts=True)
    done = remote_jobs.stop(run)
    if done is None:
        done = stopping.ask(run, now=time.time())
    print(f"run {run.name}: {done}")


if __name__ == "__main__":
    cli.run(main)
