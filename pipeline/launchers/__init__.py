"""Places to run a job at. `choose` finds the launcher of one; `dry_run` and `remote_jobs` know them
too."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from pipeline import errors

if TYPE_CHECKING:
    from pipeline.launchers.base import Launcher


class Place(enum.Enum):
    """The values of CLUSTER=."""

    LOCAL = "local"
    GCP = "gcp"
    K8S = "k8s"
    SLURM = "slurm"


def choose(place: Place) -> Launcher:
    """Returns the launcher of a place, importing only what that place needs."""
    if place is Place.LOCAL:
        from pipeline.launchers.local import LocalLauncher

        return LocalLauncher()
    if place is Place.GCP:
        from pipeline.launchers.vertex.launcher import GcpLauncher

        return GcpLauncher()
    if place is Place.SLURM:
        from pipeline.launchers.slurm.launcher import SlurmLauncher

        return SlurmLauncher()
    raise errors.UsageError(
        f"CLUSTER={place.value}: the job is only shown, with DRY_RUN=1; what that prints is for "
        "kubectl apply"
    )
