"""What `make preprocess CLUSTER=` asks a place for."""

from __future__ import annotations

import dataclasses

from pipeline.config import Config


@dataclasses.dataclass(frozen=True)
class PreprocessingRequest:
    """Records to be made at a place.

    A function in the row of `pipeline.places` takes it. It either has a job of the place make them
    and returns `None` at the job's end, or returns the `preprocessing.runners.places.Beam` by which
    this process makes them; of a `dry_run` it prints what it would ask for and returns `None`.
    """

    config: Config
    storage_root: str
    # What `preprocessing.main` is to be started with to make the same records elsewhere, except
    # --storage and --num_workers.
    arguments: tuple[str, ...] = ()
    # Flags of Beam's own.
    beam_options: tuple[str, ...] = ()
    # Local processes, or processors, that work.
    num_workers: int = 1
    dry_run: bool = False
