"""What `estimator-pipeline run` tells a script of the role it has started it in.

A script that calls `trainer.run` trains in the folder of that run, and reports there by itself what
can only be guessed of others from what they log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping

from pipeline import errors, storage
from pipeline.runs.run_folder import RunFolder

_RUN, _PID = "PIPELINE_SCRIPT_RUN", "PIPELINE_SCRIPT_PID"


@dataclasses.dataclass(frozen=True)
class Role:
    """A role of `run`. `pid` is the process that its supervisor knows, which the script is not."""

    run: RunFolder
    pid: int

    def variables(self) -> dict[str, str]:
        """Returns the variables that tell a script of it."""
        return {_RUN: self.run.path, _PID: str(self.pid)}


def call(role: Role, name: str) -> None:
    """Makes the run of a role known by the `name` that the script gives it, too: by a link.

    Raises `UsageError` if there is another run of that name.
    """
    path = storage.child(storage.parent(role.run.path), name, what="run")
    if os.path.realpath(path) == os.path.realpath(role.run.path):
        return
    if os.path.exists(path):
        raise errors.UsageError(
            f"run {name!r}: there is another one of that name; estimator-pipeline run --run={name} "
            "continues it, or use another name"
        )
    with contextlib.suppress(FileNotFoundError):  # of a run that was removed
        os.unlink(path)
    os.symlink(role.run.name, path)


def read_role(environment: Mapping[str, str]) -> Role | None:
    """Returns the role that this process is started in; `None` if that was by something else."""
    path, pid = environment.get(_RUN), environment.get(_PID, "")
    return Role(RunFolder(path), int(pid)) if path and pid.isdigit() else None
