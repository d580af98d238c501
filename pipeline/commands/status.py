"""Shows how every process of a run is doing, from any host that sees the run folder.

estimator-pipeline status --run=NAME         the newest run without --run
make status [RUN=name]
"""

from __future__ import annotations

import time

from absl import flags

from pipeline import cli
from pipeline.launchers import remote_jobs
from pipeline.runs import run_search, status_report

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_CONFIG = flags.DEFINE_string("config", None, "The newest run of this config, if no run is named.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")


def main() -> None:
    """Prints one row a process."""
    config = _CONFIG.value or None
    run = run_search.find_run(_STORAGE.value, _RUN.value or None, config, scripts=True)
    print(status_report.describe(run, now=time.time()))
    for line in remote_jobs.describe_job(run):
        print(line)


if __name__ == "__main__":
    cli.run(main)
