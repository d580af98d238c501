"""The `k8s:` section of a config: what Kubernetes is asked for. Nothing of it changes a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from pipeline.sections import Like, PlaceSection, Section

# Names of objects and labels, and their longest values:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
_PART = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = rf"{_PART}(\.{_PART})*"
_WORD = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LOWER = "lower-case letters and digits, between them dashes"
_LABEL = "letters and digits, between them '-', '_' or '.', at most 63"
Name = Annotated[
    str, Like(rf"^(?=.{{1,253}}$){_SUBDOMAIN}$", "team-7", f"{_LOWER} or dots, at most 253")
]
Namespace = Annotated[str, Like(rf"^(?=.{{1,63}}$){_PART}$", "team-7", f"{_LOWER}, at most 63")]
# A name that is the value of a label.
Queue = Annotated[
    str, Like(rf"^(?=.{{1,63}}$){_SUBDOMAIN}$", "team-7", f"{_LOWER} or dots, at most 63")
]
Label = Annotated[str, Like(rf"^({_WORD})?$", "team-7", _LABEL)]
LabelKey = Annotated[
    str,
    Like(
        rf"^((?=[^/]{{1,253}}/){_SUBDOMAIN}/)?{_WORD}$",
        "example.org/a",
        f"{_LABEL}; before a slash a domain of at most 253",
    ),
]
# Kubernetes has integers of 32 bits for seconds, restarts and users.
_MOST = (1 << 31) - 1
Count = Annotated[int, pydantic.Field(ge=0, le=_MOST)]
User = Annotated[int, pydantic.Field(ge=1, le=_MOST)]
Hours = Annotated[float, pydantic.Field(gt=0, le=_MOST // 3600)]
Minutes = Annotated[float, pydantic.Field(gt=0, le=_MOST // 60)]
# Labels of our own.
PREFIX = "estimator-pipeline"
_TAKEN = ("app.kubernetes.io/name",)
QUEUE = "kueue.x-k8s.io/queue-name"
# Quantities, without a sign and with short exponents:
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_NUMBER, _SUFFIX = r"([0-9]+\.?[0-9]*|\.[0-9]+)", r"[kMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2}"
_UNITS_ALLOWED = "Ki, Mi, Gi, Ti, k, M, G or T"
Processors = Annotated[
    str, Like(rf"^{_NUMBER}(m|{_SUFFIX})?$", "500m", f"a number, then nothing, m, {_UNITS_ALLOWED}")
]
# 400m are 0.4 bytes, which nobody means:
# https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#meaning-of-memory
Bytes = Annotated[
    str, Like(rf"^{_NUMBER}({_SUFFIX})?$", "10Gi", f"a number, then nothing, {_UNITS_ALLOWED}")
]
Role = Literal["chief", "worker", "ps", "evaluator"]


# Of an amount, by the letters at its end.
_UNITS = {"": 1.0, "m": 1e-3}
_UNITS |= {letter: 1e3**n for n, letter in enumerate("kMGTPE", start=1)}
_UNITS |= {f"{letter}i": 1024.0**n for n, letter in enumerate("KMGTPE", start=1)}


def amount(text: str) -> float:
    """Returns the number that `Bytes` or `Processors` are."""
    number = text.rstrip("mkKMGTPEi")
    return float(number) * _UNITS[text[len(number) :]]


def seconds(hours: float) -> int:
    """Returns `Hours` as Kubernetes takes them, for which 0 means at once."""
    return max(1, round(hours * 3600))


class Resources(Section):
    """What each pod of a role asks for. Without a unit, amounts are processors or bytes."""

    cpu: Processors = "1"
    """Processors that are reserved, such as `500m` or `4`."""
    cpu_limit: Processors | None = None
    """Processors that it may use at most. Not set: no limit."""
    memory: Bytes = "4Gi"
    """Memory that is reserved, which is also the limit."""
    disk: Bytes = "10Gi"
    """Temporary disk space that is reserved, which is also the limit."""
    gpus: Count = 0
    """GPUs. They need an image with CUDA."""

    @pydantic.field_validator(
        "cpu",
        "cpu_limit",
        "memory",
        "disk",
        mode="before",
        json_schema_input_type=int | float | str | None,
    )
    @classmethod
    def _number_is_an_amount(cls, value: Any) -> Any:
        return str(value) if type(value) in (int, float) else value

    @pydantic.model_validator(mode="after")
    def _may_use_what_is_reserved(self) -> Resources:
        if self.cpu_limit is not None and amount(self.cpu_limit) < amount(self.cpu):
            raise ValueError(f"cpu_limit={self.cpu_limit} is below cpu={self.cpu}: give more")
        return self


class Toleration(Section):
    """A taint of nodes that pods may run on in spite of it."""

    key: LabelKey | None = None
    """Key of the taint. Not set: every key."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """How `value` is compared."""
    value: Label = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Not set: every effect."""

    @pydantic.model_validator(mode="after")
    def _has_what_its_operator_needs(self) -> Toleration:
        if self.operator == "Exists" and self.value:
            raise ValueError(f"operator=Exists takes no value, got {self.value!r}: leave it out")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("operator=Equal needs a key; for every taint use operator=Exists")
        return self


class K8s(PlaceSection):
    """Jobs on Kubernetes (`CLUSTER=k8s`). The section does not change the model."""

    context: str | None = None
    """Context of your kubeconfig. Not set: the current one."""
    namespace: Namespace | None = None
    """Namespace that jobs run in. Not set: that of the context."""
    kind: Literal["jobset", "job", "tfjob"] | None = None
    """What a job is rendered as. `job` are plain Indexed Jobs, for strategies that restart one
    process at a time; `tfjob` is for a legacy operator. Not set: `jobset` where the cluster has
    JobSet, otherwise `job`."""
    image: str | None = None
    """Container image built from the `Dockerfile`; also `IMAGE=` with `CLUSTER=k8s`. Not set:
    `gcp.image`. One of both is required."""
    image_modules: tuple[str, ...] = ()
    """Modules of your own that the image has, in addition to those of this project and to
    `gcp.image_modules`."""
    image_pull_secrets: tuple[Name, ...] = ()
    """Secrets with which the image is pulled."""
    service_account: Name | None = None
    """Service account of the pods, which must exist. Not set: the namespace's default."""
    pvc: Name | None = None
    """PersistentVolumeClaim that holds `STORAGE`; pods on several nodes need `ReadWriteMany`. Not
    set: `STORAGE` is on `gs://`."""
    mount_path: Annotated[str, Like(r"^/[^:]+$", "/shared")] | None = None
    """Where the claim is mounted. This machine must see the same folder under the same path. Not
    set: at `STORAGE` itself."""
    env_from: tuple[Name, ...] = ()
    """Secrets whose keys become environment variables of the pods."""
    queue: Queue | None = None
    """Local queue of Kueue. Not set: none."""
    priority_class: Name | None = None
    """Priority class of the pods. Not set: the cluster's default."""
    labels: dict[LabelKey, Label] = pydantic.Field(default={})
    """Labels of all objects, in addition to those of the pipeline."""
    node_selector: dict[LabelKey, Label] = pydantic.Field(default={})
    """Labels that nodes must have."""
    tolerations: tuple[Toleration, ...] = ()
    resources: dict[Role, Resources] = pydantic.Field(default={})
    """Resources by role. A role that is not named gets the defaults below."""
    run_as_user: User = 1000
    """User and group id of the processes; it must be able to write to `STORAGE`."""
    port: Annotated[int, pydantic.Field(ge=1024, le=65535)] = 2222
    """Port that processes listen on, each in its own pod."""
    max_restarts: Count = 10
    """Restarts of a process, or of all together, after which the job fails. Evictions do not count
    where one process is restarted at a time."""
    wait_minutes: Minutes = 60.0
    """How long a process waits for the chief, whose node may take its time to appear."""
    timeout_hours: Hours | None = None
    """Hours after which the job fails. They begin again with each restart of all processes
    together, so it may take up to `max_restarts` + 1 times as long. Not set: no limit."""
    keep_hours: Hours = 24.0
    """Hours after its end at which the job is deleted from the cluster."""

    @pydantic.field_validator("labels")
    @classmethod
    def _labels_are_free(cls, labels: dict[str, str]) -> dict[str, str]:
        taken = [key for key in labels if key in _TAKEN or key.startswith(f"{PREFIX}/")]
        if taken:
            raise ValueError(f"{taken[0]}: is set by the pipeline; use another key")
        return labels

    def get_resources(self, role: str) -> Resources:
        """Returns what each pod of a role asks for."""
        resources: dict[Any, Resources] = self.resources
        return resources.get(role, Resources())
