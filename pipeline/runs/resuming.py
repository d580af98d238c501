"""The command that resumes a run, for messages."""

from __future__ import annotations

import shlex

from pipeline import storage
from pipeline.command_line import hints
from pipeline.console import terminal
from pipeline.runs.run_folder import RunFolder


def command(run: RunFolder) -> str:
    """Returns a command that resumes a run, whatever settings it was started with: they are in the
    config that the run keeps."""
    root = terminal.shown(storage.parent(storage.parent(run.path)))
    given = shlex.quote(terminal.shown(run.config_path))
    return f"make train CONFIG={given}{hints.of_run(run.name, root)}"
