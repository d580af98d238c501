"""Writes the report of a run, one HTML file: what it found, where its time went, what happened.

estimator-pipeline report --run=NAME         the newest run without --run
make report [RUN=name]
"""

from __future__ import annotations

from pipeline import cli
from pipeline.console import terminal
from pipeline.reports import writing
from pipeline.runs import run_search

_RUN, _CONFIG, _STORAGE = cli.run_flags()


def main() -> None:
    """Writes the page into the folder of the run, and says where it is."""
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value)
    print(f"report in {terminal.display_path(writing.write(run))}")


if __name__ == "__main__":
    cli.run(main)
