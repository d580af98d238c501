"""The table of places where jobs run: the values of CLUSTER=.

A place is one row here and one folder, `pipeline/launchers/<name>/`. `pipeline.launchers.base` says
what the folder must provide, docs/contributing.md how to add one. Commands, their help and
completion, the sections of a config and their reference are derived from the rows. A row names what
it needs as `module:attribute`, which is imported when it is used: a run on this machine imports
nothing of other places but their settings.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from pipeline import errors

# Where a command runs unless it is told otherwise.
HERE = "local"


@dataclasses.dataclass(frozen=True)
class Place:
    """A place.

    `launcher` is a subclass of `pipeline.launchers.base.Launcher`.

    `settings`, if it has any, is a subclass of `pipeline.sections.PlaceSection`: the section of a
    config that has the name of the place. Nothing in it may change a model: it is not part of the
    name of a run.

    `jobs` is what the names of its jobs in `run.json` begin with; empty for a place without jobs.

    `variables` are settings of commands, in lower case, that stand for a key of the config. Each
    needs its name in `VARIABLES` and `CLOUD` of the Makefile. Of places with the same one the first
    has it, unless the command runs in another of them.

    `preprocessing` is a function that takes a
    `pipeline.launchers.preprocessing.PreprocessingRequest`; empty for a place that only trains.
    """

    summary: str
    launcher: str
    settings: str = ""
    jobs: str = ""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    preprocessing: str = ""


PLACES: dict[str, Place] = {
    HERE: Place(
        "this machine",
        launcher="pipeline.launchers.local.launcher:LocalLauncher",
        preprocessing="preprocessing.runners.places:prepare_on_this_machine",
    ),
    "gcp": Place(
        "Google Cloud: Vertex AI, and Dataflow for records",
        launcher="pipeline.launchers.gcp.launcher:GcpLauncher",
        settings="pipeline.launchers.gcp.settings:Gcp",
        jobs="projects/",
        variables={
            "project": "gcp.project",
            "region": "gcp.region",
            "bucket": "gcp.bucket",
            "image": "gcp.image",
        },
        preprocessing="preprocessing.runners.places:prepare_on_dataflow",
    ),
    "k8s": Place(
        "Kubernetes",
        launcher="pipeline.launchers.k8s.launcher:K8sLauncher",
        settings="pipeline.launchers.k8s.settings:K8s",
        jobs="k8s/",
        variables={"image": "k8s.image"},
    ),
    "slurm": Place(
        "a Slurm cluster",
        launcher="pipeline.launchers.slurm.launcher:SlurmLauncher",
        settings="pipeline.launchers.slurm.settings:Slurm",
        jobs="slurm/",
        preprocessing="pipeline.launchers.slurm.preprocess_job:submit",
    ),
}


def load(named: str) -> Any:
    """Returns what `module:attribute` names."""
    module, _, attribute = named.partition(":")
    return getattr(importlib.import_module(module), attribute)


def list_training() -> list[str]:
    """Returns the names of all places."""
    return [*PLACES]


def list_preprocessing() -> list[str]:
    """Returns the names of the places that make records."""
    return [name for name, place in PLACES.items() if place.preprocessing]


def format_others(names: list[str]) -> str:
    """Returns the places of `names` but this machine, as text: `CLUSTER=gcp and CLUSTER=slurm`."""
    *first, last = [f"CLUSTER={name}" for name in names if name != HERE]
    return f"{', '.join(first)} and {last}" if first else last


def variables(cluster: str = HERE) -> dict[str, str]:
    """Returns the settings of all places that stand for a key of the config; those of `cluster`, if
    it is a place, instead of those of others."""
    found: dict[str, str] = {}
    for name in (cluster, *PLACES):
        found = {**(PLACES[name].variables if name in PLACES else {}), **found}
    return found


def settings() -> dict[str, Any]:
    """Returns the class of each section of the config that belongs to a place."""
    return {name: load(place.settings) for name, place in PLACES.items() if place.settings}


def find_place(job: str) -> str:
    """Returns the place of a job by its name in `run.json`. Raises `UsageError` if no place has
    jobs with such a name: a later version may have more places."""
    for name, place in PLACES.items():
        if place.jobs and job.startswith(place.jobs):
            return name
    known = ", ".join(place.jobs for place in PLACES.values() if place.jobs)
    raise errors.UsageError(
        f"job {job!r}: no place has jobs with such a name; they begin with {known}. Use the "
        "version that submitted it"
    )
