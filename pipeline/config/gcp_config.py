"""The `gcp:` section of a config: what Google Cloud is asked for. Nothing of it changes a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from pipeline import errors
from pipeline.config.sections import Section, like

Label = Annotated[str, like(r"^[a-z0-9_-]{0,63}$", "team-7")]
LabelKey = Annotated[str, like(r"^[a-z][a-z0-9_-]{0,62}$", "team")]
MachineType = Annotated[str, like(r"^[a-z][a-z0-9]*-[a-z]+-[0-9]+[a-z]?$", "n1-standard-4")]
Region = Annotated[str, like(r"^[a-z]+-[a-z]+[0-9]+$", "europe-west4")]
ServiceAccount = Annotated[
    str,
    like(r"^[^@\s]+@[^@\s]+\.gserviceaccount\.com$", "trainer@my-project.iam.gserviceaccount.com"),
]
Role = Literal["chief", "worker", "ps", "evaluator"]


class Machine(Section):
    """The machine of one process."""

    type: MachineType = "n1-standard-4"
    # Such as NVIDIA_TESLA_T4; together with how many of them. The image must have CUDA then.
    accelerator: Annotated[str, like(r"^NVIDIA_[A-Z0-9_]+$", "NVIDIA_TESLA_T4")] | None = None
    accelerators: Annotated[int, pydantic.Field(ge=0)] = 0
    disk_gb: Annotated[int, pydantic.Field(ge=100)] = 100

    @pydantic.model_validator(mode="after")
    def _accelerators_have_a_kind(self) -> Machine:
        if (self.accelerator is None) != (self.accelerators == 0):
            raise ValueError(
                f"accelerator={self.accelerator} and accelerators={self.accelerators}: give both, "
                "such as NVIDIA_TESLA_T4 and 1, or neither"
            )
        return self


class Dataflow(Section):
    """The workers of preprocessing; none has an address outside the network."""

    machine_type: MachineType = "n1-standard-4"
    max_workers: Annotated[int, pydantic.Field(gt=0)] = 10
    disk_gb: Annotated[int, pydantic.Field(ge=30)] | None = None
    # Such as regions/<region>/subnetworks/<name>.
    subnetwork: str | None = None


class Gcp(Section):
    """Where jobs run, on what, and as whom. `project`, `region`, `bucket` and `image` are also
    PROJECT=, REGION=, BUCKET= and IMAGE=."""

    project: Annotated[str, like(r"^[a-z][a-z0-9:.-]{4,62}$", "my-project")] | None = None
    region: Region | None = None
    bucket: Annotated[str, like(r"^[a-z0-9][a-z0-9._-]{1,220}$", "my-bucket")] | None = None
    # What `docker build` of this repository has pushed.
    image: str | None = None
    service_account: ServiceAccount | None = None
    # projects/<number>/global/networks/<name>, peered with Vertex AI.
    network: (
        Annotated[
            str,
            like(
                r"^projects/[0-9]+/global/networks/[a-z0-9-]+$", "projects/7/global/networks/ours"
            ),
        ]
        | None
    ) = None
    labels: dict[LabelKey, Label] = pydantic.Field(default={})
    # projects/<project>/locations/<region>/tensorboards/<id>; needs a service account.
    tensorboard: (
        Annotated[
            str,
            like(
                r"^projects/[^/]+/locations/[^/]+/tensorboards/[^/]+$",
                "projects/7/locations/europe-west4/tensorboards/8",
            ),
        ]
        | None
    ) = None
    # Machines that cost less and may be taken away: training goes on from its last checkpoint.
    spot: bool = False
    timeout_hours: Annotated[float, pydantic.Field(gt=0, le=24 * 28)] = 24.0
    # Of roles that are not named here, the default.
    machines: dict[Role, Machine] = pydantic.Field(default={})
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
