"""What resumes a run, for messages."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator

from pipeline import errors, storage
from pipeline.command_line import hints
from pipeline.console import terminal
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder


def command(run: RunFolder) -> str:
    """Returns a command that resumes a run, whatever settings it was started with: they are in the
    config that the run keeps."""
    root = terminal.display_path(storage.parent(storage.parent(run.path)))
    given = shlex.quote(terminal.display_path(run.config_path))
    return f"make train CONFIG={given}{hints.format_run(run.name, root)}"


@contextlib.contextmanager
def explain_record_errors(run: RunFolder) -> Iterator[None]:
    """Makes errors of the records of one of several runs say of which, and what to do about them be
    commands on it."""
    try:
        yield
    except errors.DataError as error:
        made = f"make preprocess CONFIG={shlex.quote(terminal.display_path(run.config_path))}"
        text = str(error).replace("make preprocess", made).replace("make train", command(run))
        raise errors.DataError(f"run {run.name!r}: {text}") from None


def build_record_error(run: RunFolder) -> errors.PipelineError:
    """Returns the error of a run that has no record that can be used."""
    if storage.exists(run.record_path):
        return errors.DataError(
            f"{run.record_path!r}: is damaged, or of another version of this project. The command "
            f"that trained run {run.name!r} writes it again."
        )
    result = storage.join(run.path, run_folder.RESULT)
    if storage.exists(result) or run_folder.find_saved_step(run) is not None:
        return errors.DataError(
            f"run {run.name!r}: its {run_folder.RECORD} is missing, though it has trained. Restore "
            f"it, or have another one written by {command(run)}"
        )
    return errors.UsageError(
        f"run {run.name!r}: has no {run_folder.RECORD}, so it has never begun. Train it with "
        f"{command(run)}"
    )
