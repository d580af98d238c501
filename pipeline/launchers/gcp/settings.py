"""The `gcp:` section of a config: what Google Cloud is asked for. Nothing of it changes a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from pipeline import errors
from pipeline.sections import Like, NotNegative, PlaceSection, Positive, Section

Label = Annotated[str, Like(r"^[a-z0-9_-]{0,63}$", "team-7")]
LabelKey = Annotated[str, Like(r"^[a-z][a-z0-9_-]{0,62}$", "team")]
MachineType = Annotated[str, Like(r"^[a-z][a-z0-9]*-[a-z]+-[0-9]+[a-z]?$", "n1-standard-4")]
Region = Annotated[str, Like(r"^[a-z]+-[a-z]+[0-9]+$", "europe-west4")]
ServiceAccount = Annotated[
    str,
    Like(r"^[^@\s]+@[^@\s]+\.gserviceaccount\.com$", "trainer@my-project.iam.gserviceaccount.com"),
]
Role = Literal["chief", "worker", "ps", "evaluator"]


class Machine(Section):
    """The machine of each process of a role."""

    type: MachineType = "n1-standard-4"
    """Machine type of Compute Engine."""
    accelerator: Annotated[str, Like(r"^NVIDIA_[A-Z0-9_]+$", "NVIDIA_TESLA_T4")] | None = None
    """Type of accelerator. Give it together with `accelerators`, and use an image with CUDA. Not
    set: none."""
    accelerators: NotNegative = 0
    """Accelerators per machine."""
    disk_gb: Annotated[int, pydantic.Field(ge=100)] = 100
    """Size of the boot disk in GB."""

    @pydantic.model_validator(mode="after")
    def _accelerators_have_a_kind(self) -> Machine:
        if (self.accelerator is None) != (self.accelerators == 0):
            raise ValueError(
                f"accelerator={self.accelerator} and accelerators={self.accelerators}: give both, "
                "such as NVIDIA_TESLA_T4 and 1, or neither"
            )
        return self


class Dataflow(Section):
    """The workers of preprocessing on Dataflow. They have no public addresses."""

    machine_type: MachineType = "n1-standard-4"
    """Machine type of Compute Engine."""
    max_workers: Positive = 10
    """Most workers at once."""
    disk_gb: Annotated[int, pydantic.Field(ge=30)] | None = None
    """Size of a worker's disk in GB. Not set: Dataflow decides."""
    subnetwork: str | None = None
    """Subnetwork of the workers, such as `regions/<region>/subnetworks/<name>`. Not set: Dataflow
    decides."""


class Gcp(PlaceSection):
    """Jobs on Google Cloud (`CLUSTER=gcp`). The section does not change the model."""

    project: Annotated[str, Like(r"^[a-z][a-z0-9:.-]{4,62}$", "my-project")] | None = None
    """Project that jobs run in; also `PROJECT=`. Required with `CLUSTER=gcp`."""
    region: Region | None = None
    """Region that jobs run in; also `REGION=`. Required with `CLUSTER=gcp`."""
    bucket: Annotated[str, Like(r"^[a-z0-9][a-z0-9._-]{1,220}$", "my-bucket")] | None = None
    """Bucket for temporary files of Dataflow; also `BUCKET=`, which sets the default of `STORAGE=`
    too. Required with `CLUSTER=gcp`."""
    image: str | None = None
    """Container image built from the `Dockerfile`; also `IMAGE=`. Required with `CLUSTER=gcp`;
    `CLUSTER=k8s` uses it unless `k8s.image` is set."""
    service_account: ServiceAccount | None = None
    """Account that jobs run as. Not set: the default of the service."""
    network: (
        Annotated[
            str,
            Like(
                r"^projects/[0-9]+/global/networks/[a-z0-9-]+$", "projects/7/global/networks/ours"
            ),
        ]
        | None
    ) = None
    """VPC network of training machines, which must be peered with Vertex AI. Not set: none."""
    labels: dict[LabelKey, Label] = pydantic.Field(default={})
    """Labels of jobs, in addition to those of the pipeline."""
    tensorboard: (
        Annotated[
            str,
            Like(
                r"^projects/[^/]+/locations/[^/]+/tensorboards/[^/]+$",
                "projects/7/locations/europe-west4/tensorboards/8",
            ),
        ]
        | None
    ) = None
    """Vertex AI TensorBoard that shows the run. Needs `service_account`. Not set: none."""
    spot: bool = False
    """Uses machines that cost less and may be taken away; training then resumes from its last
    checkpoint."""
    timeout_hours: Annotated[float, pydantic.Field(gt=0, le=24 * 28)] = 24.0
    """Hours after which a training job is ended."""
    machines: dict[Role, Machine] = pydantic.Field(default={})
    """Machines by role. A role that is not named gets the defaults below."""
    dataflow: Dataflow = Dataflow()

    @pydantic.model_validator(mode="after")
    def _tensorboard_has_an_account(self) -> Gcp:
        if self.tensorboard and not self.service_account:
            raise ValueError("tensorboard: needs a service_account, which writes to it")
        return self

    def check(self) -> None:
        """Raises `UsageError` for what no job on Google Cloud can do without."""
        needed = {
            "project": "PROJECT=",
            "region": "REGION=",
            "bucket": "BUCKET=",
            "image": "IMAGE=",
        }
        missing = [way for name, way in needed.items() if getattr(self, name) is None]
        if missing:
            raise errors.UsageError(f"CLUSTER=gcp: missing: {', '.join(missing)}")

    def machine(self, role: str) -> Machine:
        """Returns the machine of each process of a role."""
        machines: dict[Any, Machine] = self.machines
        return machines.get(role, Machine())
