"""Lists all runs of a storage, newest first.

    estimator-pipeline runs [--config=name] [--storage=output]

`best` is the best value of eval.metric so far; `started` and `took` are of the newest launch.
"""

from __future__ import annotations

import time

from absl import flags

from pipeline import cli
from pipeline.console import terminal
from pipeline.runs import run_list

_CONFIG = flags.DEFINE_string("config", None, "Only runs of the config of this name.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written, local or gs://.")


def main() -> None:
    """Prints the table."""
    rows = run_list.read(_STORAGE.value, now=time.time(), config=_CONFIG.value or None)
    if rows:
        print("\n".join(run_list.lines(rows)))
    else:
        of = f" of config {_CONFIG.value!r}" if _CONFIG.value else ""
        print(f"no runs{of} in {terminal.shown(_STORAGE.value)!r}")


if __name__ == "__main__":
    cli.run(main)
