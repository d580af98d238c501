"""A chief that waits for another process as in TensorFlow, for ever: python -m … RUN_PATH [LOSS]

With a loss it has made a step before.
"""

from __future__ import annotations

import sys
import threading

from pipeline import topology
from pipeline.run_folder import RunFolder
from trainer import ends, signals
from trainer.reporter import Reporter

_CLUSTER = {topology.CHIEF: ("h:1",), topology.PS: ("h:2",)}


def main() -> None:
    ends._GRACE_AFTER_SIGNAL = 0.0
    run = RunFolder(sys.argv[1])
    reporter = Reporter(run, "chief-0", 100)
    signals.stop_softly()
    ends.Watch(run, topology.Task(topology.CHIEF, 0, _CLUSTER), reporter).start()
    reporter.say("training", loss=next(map(float, sys.argv[2:]), None))
    threading.Event().wait()


if __name__ == "__main__":
    main()
