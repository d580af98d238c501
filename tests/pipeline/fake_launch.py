"""`python -m pipeline.launch` with fake stages: the same command line, no TensorFlow, no Beam."""

from __future__ import annotations

import sys

from pipeline import cli, launch
from pipeline.launchers import base
from pipeline.launchers.local.launcher import LocalLauncher
from pipeline.supervision import plan
from tests.pipeline import fake_roles


def choose(place: str) -> base.Launcher:
    return LocalLauncher(
        preload=fake_roles.__name__,
        entry=fake_roles.ENTRY,
        preprocessing=(sys.executable, "-m", "tests.pipeline.fake_preprocessing"),
        graces=plan.Graces(training=5.0, evaluator=1.0, ps=0.2, poll=0.05),
    )


if __name__ == "__main__":
    base.choose = choose
    cli.run(launch.main)
