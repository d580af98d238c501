"""Shows how every process of a run is doing, from any host that sees the run folder.

estimator-pipeline status --run=NAME         the newest run without --run
make status [RUN=name]
"""

from __future__ import annotations

import time

from pipeline import cli
from pipeline.launchers import remote_jobs
from pipeline.runs import run_search, status_report

_RUN, _CONFIG, _STORAGE = cli.run_flags()


def main() -> None:
    """Prints one row a process."""
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, scripts=True)
    print(status_report.describe(run, now=time.time()))
    for line in remote_jobs.describe_job(run):
        print(line)


if __name__ == "__main__":
    cli.run(main)
