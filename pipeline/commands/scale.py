"""Changes the number of workers of a run that trains.

    estimator-pipeline scale --run=NAME --workers=5
    make scale RUN=name WORKERS=5

In asynchronous modes workers join, up to cluster.max_workers, or finish their batch and leave; no
other process is restarted. In synchronous ones all that train save and start again. Works from any
host that sees the run folder; for a job elsewhere, from one that may submit jobs there.
"""

from __future__ import annotations

import time

from absl import flags

from pipeline import cli
from pipeline.launchers import remote_jobs
from pipeline.runs import run_search, scale_request

_RUN, _CONFIG, _STORAGE = cli.run_flags()
_WORKERS = flags.DEFINE_integer(
    "workers", None, "Workers from now on, in addition to the chief.", required=True
)


def main() -> None:
    """Writes the request, which the launcher of the run carries out, or has the place of its job
    do so."""
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, scripts=True)
    done = remote_jobs.scale(run, _WORKERS.value, now=time.time())
    if done is None:
        done = scale_request.ask(run, _WORKERS.value, now=time.time())
    print(f"run {run.name}: {done}")


if __name__ == "__main__":
    cli.run(main)
