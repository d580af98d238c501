"""The raw data of a config that says where they are from, which `make data` brings."""

from __future__ import annotations

import shlex

from pipeline import config, errors, storage
from pipeline.console import terminal


def require(data: config.Data, given: str) -> None:
    """Raises `UsageError`, with the command that brings it, if an input is not there that
    `make data` downloads or makes. `given` is the config's name or path, as it was typed."""
    brought = data.download or data.generate
    if brought is None or storage.exists(brought.to):
        return
    inputs = {path for files in data.inputs.values() for path in files.values()}
    if brought.to in inputs:
        raise errors.UsageError(
            f"{terminal.display_path(brought.to)!r}: no such file. Bring it with make data "
            f"CONFIG={shlex.quote(given)}"
        )
