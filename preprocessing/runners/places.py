"""How this machine and Google Cloud make records: by Beam, which this process starts."""

from __future__ import annotations

import dataclasses

from pipeline import errors, places
from pipeline.launchers.gcp.settings import Gcp
from pipeline.launchers.preprocessing import PreprocessingRequest
from preprocessing.runners import dataflow, dataflow_job


@dataclasses.dataclass(frozen=True)
class Beam:
    """What Beam is started with: flags of its own, and what follows a job that runs elsewhere."""

    options: tuple[str, ...] = ()
    elsewhere: dataflow_job.Follower | None = None


def prepare_on_this_machine(request: PreprocessingRequest) -> Beam:
    """Returns Beam's defaults. Raises `UsageError` for a dry run: nothing is asked for."""
    if request.dry_run:
        raise errors.UsageError(
            f"DRY_RUN=1: shows what {places.format_others(places.list_preprocessing())} would be "
            "asked for"
        )
    return Beam()


def prepare_on_dataflow(request: PreprocessingRequest) -> Beam | None:
    """Returns the options of a job on Dataflow, and its follower; prints those of a dry run.

    Raises `UsageError` for a config or storage that Dataflow cannot use, or packages not installed.
    """
    gcp = Gcp.of(request.config)
    options = dataflow.build_options(request.config.name, gcp)
    if request.dry_run:
        print("\n".join([*options, *request.beam_options]))
        return None
    dataflow.check_installed()
    dataflow.check_code(request.config)
    dataflow.check_places(request.config, request.storage_root)
    return Beam(
        tuple(options), dataflow_job.build_follower(gcp, hint=dataflow.describe_private_access(gcp))
    )
