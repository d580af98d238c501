"""Shows the logs of the processes of a run, wherever they run.

    estimator-pipeline logs --run=NAME --role=worker     the newest run; all roles without --role
    make logs [RUN=name] [ROLE=worker-1] [FOLLOW=1]

Logs of a run on gs:// are copied there every half minute.
"""

from __future__ import annotations

import sys
import time

from absl import flags

from pipeline import cli, storage
from pipeline.launchers import remote_jobs
from pipeline.runs import liveness, log_reader, run_folder, run_record, run_search
from pipeline.runs.run_folder import RunFolder

_RUN, _CONFIG, _STORAGE = cli.run_flags()
_ROLE = flags.DEFINE_string("role", None, "A role, or one process such as worker-1.")
_FOLLOW = flags.DEFINE_bool("follow", False, "Follow until the run has ended.")

_POLL, _REMOTE_POLL = 0.5, 5.0  # seconds


def main() -> None:
    """Prints the logs of all processes by time; with --follow as lines come."""
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, scripts=True)
    logs = log_reader.Logs(run, _ROLE.value or None)
    record = run_record.read(run)
    link = remote_jobs.logs_link(record.job) if record is not None and record.job else None
    if link is not None:
        print(f"all logs {link}", file=sys.stderr)
    if not _FOLLOW.value:
        for line in logs.read_new_lines(last=True):
            print(line)
        if not logs.names():
            print(f"run {run.name}: no process has reported yet", file=sys.stderr)
        return
    poll = _REMOTE_POLL if storage.is_remote(run.path) else _POLL
    try:
        log_reader.follow(
            logs,
            say=lambda line: print(line, flush=True),
            ended=lambda: _has_ended(run),
            wait=lambda: time.sleep(poll),
        )
    except KeyboardInterrupt:
        print()  # to stop looking is no failure


def _has_ended(run: RunFolder) -> bool:
    record = run_record.read(run)
    job = run_record.job_at_work(record)
    if job is not None:
        return remote_jobs.has_ended(job)
    now, statuses = time.time(), run_folder.read_statuses(run)
    return liveness.state_of_run(run, record, statuses, now=now)[0] not in liveness.AT_WORK


if __name__ == "__main__":
    cli.run(main)
