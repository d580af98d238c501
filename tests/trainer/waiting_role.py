"""A role that waits for another process as in TensorFlow, for ever: RUN_PATH ROLE [LOSS [SECONDS]]

With a loss it has made a step before, and with seconds it watches itself.
"""

from __future__ import annotations

import sys
import threading

from pipeline.cluster import topology
from pipeline.processes import signals
from pipeline.runs.run_folder import RunFolder
from pipeline.supervision import watchdog
from trainer.lifecycle import stopping
from trainer.lifecycle.own_watchdog import OwnWatchdog
from trainer.monitoring.status_reporter import Reporter

_CLUSTER = {topology.CHIEF: ("h:1",), topology.WORKER: ("h:3",), topology.PS: ("h:2",)}


def main() -> None:
    task = topology.Task(sys.argv[2], 0, _CLUSTER)
    run = RunFolder(sys.argv[1])
    reporter = Reporter(run, task.name, 100)
    signals.stop_softly()
    # The others have a grace in which a second Ctrl-C can come first.
    stop_seconds = 0.0 if task.is_chief else 600.0
    graces = {"stop_seconds": stop_seconds, "after_end": 0.0, "after_failure": 0.0}
    stopping.Watch(run, task, reporter, **graces).start()
    reporter.report("training", loss=next(map(float, sys.argv[3:4]), None))
    for seconds in map(float, sys.argv[4:]):
        limits = watchdog.HangLimits(step=seconds, start=seconds)
        OwnWatchdog(run, task, reporter, limits=limits).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
