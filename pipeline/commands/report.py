"""Writes the report of a run, one HTML file: what it found, where its time went, what happened.

estimator-pipeline report --run=NAME         the newest run without --run
make report [RUN=name]
"""

from __future__ import annotations

from absl import flags

from pipeline import cli
from pipeline.console import terminal
from pipeline.reports import writing
from pipeline.runs import run_search

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_CONFIG = flags.DEFINE_string("config", None, "The newest run of this config, if no run is named.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")


def main() -> None:
    """Writes the page into the folder of the run, and says where it is."""
    run = run_search.find_run(_STORAGE.value, _RUN.value or None, _CONFIG.value or None)
    print(f"report in {terminal.display_path(writing.write(run))}")


if __name__ == "__main__":
    cli.run(main)
