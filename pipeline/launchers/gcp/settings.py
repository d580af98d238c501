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
Variable = Annotated[str, Like(r"^[A-Za-z_][A-Za-z0-9_]*$", "MY_SETTING")]
Disk = Literal["pd-ssd", "pd-standard", "pd-balanced", "hyperdisk-balanced"]
# These take hyperdisks alone:
# https://cloud.google.com/compute/docs/disks/hyperdisks#machine-type-support
_ONLY_HYPERDISK = ("a3-ultragpu-", "a4-", "a4x-", "c4-", "c4a-", "c4d-", "n4-")
# What services set, or this project does.
_TAKEN = ("TF_CONFIG", "CLUSTER_SPEC", "PATH", "PYTHONPATH")
_TAKEN_FROM = ("AIP_", "CLOUD_ML_", "PIPELINE_")
_OUR_LABELS = ("pipeline", "run")
_LONGEST_FLEX_START = 24 * 7  # hours
# The most of all series: https://cloud.google.com/compute/docs/general-purpose-machines
_GB_OF_PROCESSOR = {"standard": 4, "highmem": 8, "highcpu": 2}


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
    disk_type: Disk | None = None
    """Type of the boot disk. Not set: `hyperdisk-balanced` where the machine takes no other, else
    `pd-ssd`."""
    reservation: (
        Annotated[
            str,
            Like(
                r"^(any|projects/[^/]+/zones/[^/]+/reservations/[^/]+)$",
                "projects/my-project/zones/europe-west4-a/reservations/ours",
            ),
        ]
        | None
    ) = None
    """Reservation of Compute Engine that machines are taken from; `any` takes from any that
    fits, and else buys on demand. Not set: none."""

    @property
    def memory(self) -> float | None:
        """The most bytes of memory that a machine of this type has; `None` of other series."""
        _, kind, processors = (*self.type.split("-"), "", "")[:3]
        if kind not in _GB_OF_PROCESSOR or not processors.isdigit():
            return None
        return int(processors) * _GB_OF_PROCESSOR[kind] * float(1 << 30)

    @property
    def boot_disk(self) -> str:
        """The type of the boot disk."""
        only = self.type.startswith(_ONLY_HYPERDISK)
        return self.disk_type or ("hyperdisk-balanced" if only else "pd-ssd")

    @pydantic.model_validator(mode="after")
    def _accelerators_have_a_kind(self) -> Machine:
        if (self.accelerator is None) != (self.accelerators == 0):
            raise ValueError(
                f"accelerator={self.accelerator} and accelerators={self.accelerators}: give both, "
                "such as NVIDIA_TESLA_T4 and 1, or neither"
            )
        return self


class Dataflow(Section):
    """The workers of preprocessing on Dataflow."""

    image: str | None = None
    """Container image of the workers: the target `preprocessor` of the `Dockerfile`, which runs as
    root, as Dataflow needs. Not set: `gcp.image`."""
    public_ips: bool = False
    """Gives workers public addresses. Without them the subnetwork needs Private Google Access."""

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
    """Container image built from the `Dockerfile`; also `IMAGE=` with `CLUSTER=gcp`, where it is
    required. `CLUSTER=k8s` uses it unless `k8s.image` is set."""
    service_account: ServiceAccount | None = None
    """Account that jobs run as. Not set: the default of the service."""
    env: dict[Variable, str] = pydantic.Field(default={})
    """Environment variables of training processes. The console shows them: no secrets."""
    package: (
        Annotated[str, Like(r"^gs://[^/]+/.+\.whl$", "gs://my-bucket/mine-1.0-py3-none-any.whl")]
        | None
    ) = None
    """Wheel with your own modules that the config names, if `image` does not have them. It must
    be pure Python, and need nothing that the image lacks."""
    image_modules: tuple[str, ...] = ()
    """Modules of your own that `image` has, in addition to those of this project."""
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
    network_attachment: (
        Annotated[
            str,
            Like(
                r"^projects/[^/]+/regions/[^/]+/networkAttachments/[^/]+$",
                "projects/my-project/regions/europe-west4/networkAttachments/ours",
            ),
        ]
        | None
    ) = None
    """Network attachment of a Private Service Connect interface, by which training machines reach a
    VPC network without peering. Not set: none."""
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
    flex_start_hours: Annotated[float, pydantic.Field(ge=0)] | None = None
    """Most hours to wait until all machines are there at once; 0 waits for ever. This is flex
    start, for L4 and newer GPUs, the same machine for all roles, and at most 7 days of
    training. Not set: machines are asked for as they are needed."""
    submissions: Positive = 3
    """How often a job is submitted in all, if it ends without an error of its own that is
    final, such as after its machines were taken away."""
    abort_to_retry: bool = False
    """Ends a process that may succeed at another attempt by SIGABRT in place of exit code 75,
    in case Vertex AI restarts crashes only."""
    timeout_hours: Annotated[float, pydantic.Field(gt=0, le=24 * 28)] = 24.0
    """Hours after which a training job is ended."""
    machines: dict[Role, Machine] = pydantic.Field(default={})
    """Machines by role. A role that is not named gets the defaults below."""
    dataflow: Dataflow = Dataflow()

    @pydantic.field_validator("env")
    @classmethod
    def _env_is_free(cls, env: dict[str, str]) -> dict[str, str]:
        taken = [name for name in env if name in _TAKEN or name.startswith(_TAKEN_FROM)]
        if taken:
            raise ValueError(f"{taken[0]}: is set by the service or this project; use another name")
        return env

    @pydantic.field_validator("labels")
    @classmethod
    def _labels_are_free(cls, labels: dict[str, str]) -> dict[str, str]:
        taken = [name for name in labels if name in _OUR_LABELS]
        if taken:
            raise ValueError(f"{taken[0]}: is set by this project; use another name")
        return labels

    @pydantic.model_validator(mode="after")
    def _can_be_asked_for_together(self) -> Gcp:
        if self.spot and self.flex_start_hours is not None:
            raise ValueError("spot and flex_start_hours: machines are one or the other; give one")
        if self.flex_start_hours is not None and self.timeout_hours > _LONGEST_FLEX_START:
            raise ValueError(
                f"flex_start_hours: needs timeout_hours of at most {_LONGEST_FLEX_START}, got "
                f"{self.timeout_hours:g}"
            )
        if self.network and self.network_attachment:
            raise ValueError("network and network_attachment: give one of the two")
        return self

    @pydantic.model_validator(mode="after")
    def _tensorboard_has_an_account(self) -> Gcp:
        if self.tensorboard and not self.service_account:
            raise ValueError("tensorboard: needs a service_account, which writes to it")
        return self

    def check(self, *, image: str | None = None) -> None:
        """Raises `UsageError` for what no job on Google Cloud can do without; its `image` may be
        another than that of training."""
        needed = {
            "project": "PROJECT=",
            "region": "REGION=",
            "bucket": "BUCKET=",
            "image": "IMAGE=",
        }
        given = {name: getattr(self, name) for name in needed}
        given["image"] = image or self.image
        missing = [way for name, way in needed.items() if given[name] is None]
        if missing:
            raise errors.UsageError(f"CLUSTER=gcp: missing: {', '.join(missing)}")

    def machine(self, role: str) -> Machine:
        """Returns the machine of each process of a role."""
        machines: dict[Any, Machine] = self.machines
        return machines.get(role, Machine())
