"""A role that waits for another process as in TensorFlow, for ever: RUN_PATH ROLE [LOSS]

With a loss it has made a step before.
"""

from __future__ import annotations

import sys
import threading

from pipeline.cluster import topology
from pipeline.processes import signals
from pipeline.runs.run_folder import RunFolder
from trainer.lifecycle import stopping
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
    reporter.say("training", loss=next(map(float, sys.argv[3:]), None))
    threading.Event().wait()


if __name__ == "__main__":
    main()
