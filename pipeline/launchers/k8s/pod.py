"""The pods of a job: names, labels and template. Pure.

Pods pass the "restricted" Pod Security Standard. All processes listen on the same port, each in a
pod with an address of its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from typing import Any

from pipeline import errors, storage
from pipeline.cluster import gpus, scaling, topology
from pipeline.config import config_file, own_code, strategy_table
from pipeline.jobs.job import Job
from pipeline.launchers import container as containers
from pipeline.launchers import image as image_contents
from pipeline.launchers import image_name
from pipeline.launchers.gcp.settings import Gcp
from pipeline.launchers.k8s.settings import PREFIX, QUEUE, K8s, amount
from pipeline.runs import start_patience

RUN, FOLDER, SET, ROLE = (f"{PREFIX}/{name}" for name in ("run", "folder", "set", "role"))
CONTAINER = "trainer"
# Where pods find the config.
_FOLDER, FILE = "/etc/estimator-pipeline", "config.yaml"
_TMP = "/tmp"  # all else is read only
# What images need: our packages, programs, their libraries, and what the kernel shows.
_PACKAGES = tuple(f"/app/{name}" for name in ("pipeline", "preprocessing", "serving", "trainer"))
_SYSTEM = ("/bin", "/dev/null", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr/bin", "/usr/lib")
_OF_IMAGE = _PACKAGES + _SYSTEM + ("/usr/local/bin", "/usr/local/lib")
# Pod names are <set>-<role>-0-<index>-<5 characters>, in at most 63 characters.
_LONGEST_RUN = 30
_SAVING = 90  # seconds
# Labels that Kubernetes, JobSet and the Training Operator set, by how they begin or as they are.
_OF_CLUSTER = ("batch.kubernetes.io/", "jobset.sigs.k8s.io/", "training.kubeflow.org/")
_OF_JOBS = ("job-name", "controller-uid")
# Below it no process starts, and a number without a unit is most likely meant as MiB.
_LEAST_BYTES = 1024**2


@dataclasses.dataclass(frozen=True)
class Rendering:
    """A job and a submission of it; `name` is that of its objects, and its pods' domain."""

    job: Job
    submission: str

    @property
    def settings(self) -> K8s:
        """The `k8s` section of the config."""
        return K8s.of(self.job.config)

    @property
    def run_label(self) -> str:
        """The name of the run as Kubernetes allows names."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.job.name.lower()).strip("-")
        begins = plain if plain[:1].isalpha() else f"run-{plain}"
        return begins[:_LONGEST_RUN].strip("-")

    @property
    def name(self) -> str:
        """Differs for each submission: what JobSets and Jobs run cannot be changed later."""
        return f"{self.run_label}-{self.submission[:6]}"

    @property
    def roles(self) -> list[str]:
        """The roles that the job has processes of."""
        return [role for role in topology.ROLES if self.job.counts.get(role)]

    @property
    def decides(self) -> str:
        """The role whose success is that of the job."""
        return self.roles[-1]  # the evaluator, or a chief alone

    @property
    def unit(self) -> str:
        """What is restarted when a process is lost: `task` or `gang`."""
        strategy = strategy_table.STRATEGIES[self.job.config.cluster.strategy]
        return strategy.restart_unit if strategy.own_evaluator else "task"

    @property
    def addressed(self) -> dict[str, int]:
        """How many processes of each role there are addresses for: workers that may join, too."""
        counts = {role: self.job.counts[role] for role in self.roles}
        if topology.WORKER in counts:
            counts[topology.WORKER] += scaling.count_spare_places(self.job.config.cluster)
        return counts

    def build_metadata(self) -> dict[str, Any]:
        """Returns the metadata of an object."""
        return {"name": self.name, "labels": self.build_labels()}

    def build_queued_metadata(self) -> dict[str, Any]:
        """Returns the metadata of the object that runs the pods."""
        queue = self.settings.queue
        labels = {QUEUE: queue} if queue else {}
        return {
            "name": self.name,
            "labels": {**self.build_labels(), **labels},
            "annotations": {FOLDER: self.job.run.path},
        }

    def build_labels(self) -> dict[str, str]:
        """Returns the labels of all objects."""
        return {
            **self.settings.labels,
            "app.kubernetes.io/name": PREFIX,
            RUN: self.run_label,
            FOLDER: folder_label(self.job),
            SET: self.name,
        }


def folder_label(job: Job) -> str:
    """Returns the label by which the job of a run is found again: paths are no labels."""
    return hashlib.sha256(job.run.path.encode()).hexdigest()[:16]


def check(job: Job) -> None:
    """Raises `UsageError` for a job that pods cannot run."""
    name = image(job)
    if name is None:
        raise errors.UsageError(
            "CLUSTER=k8s: missing: IMAGE= or k8s.image. Build one with the Dockerfile"
        )
    image_name.check(name, "k8s")
    settings = K8s.of(job.config)
    _check_labels(settings)
    _check_memory(settings)
    there = (*settings.image_modules, *Gcp.of(job.config).image_modules)
    missing = image_contents.lacks(own_code.modules(job.config), there)
    if missing:
        raise errors.UsageError(
            f"CLUSTER=k8s: the config names {', '.join(missing)}, which the image does not have. "
            "Build an image that has it, and name it in k8s.image_modules"
        )
    if settings.pvc is None and not storage.is_remote(job.run.path):
        raise errors.UsageError(
            f"CLUSTER=k8s: STORAGE is {job.storage_root!r}, which pods do not see. Use "
            "STORAGE=gs://bucket/folder, or name the claim that holds it with k8s.pvc"
        )
    if settings.pvc:
        _check_mount(job, settings)
    secret = [line.partition(" looks like ")[0] for line in config_file.warnings(job.config)]
    if secret:
        raise errors.UsageError(
            f"CLUSTER=k8s: {secret[0]} looks like a secret, and the config would be in a "
            "ConfigMap. Let your code read it from the environment, from a Secret in k8s.env_from"
        )


def _check_labels(settings: K8s) -> None:
    for key in settings.labels:
        if key in _OF_JOBS or key.startswith(_OF_CLUSTER):
            taken = "is set by Kubernetes or an operator; use another key"
        elif key == QUEUE and settings.queue is not None:
            taken = "is set by k8s.queue; leave out one of them"
        else:
            continue
        raise errors.UsageError(f"CLUSTER=k8s: k8s.labels: {key}: {taken}")


def _check_memory(settings: K8s) -> None:
    """Raises `UsageError` for so few bytes of memory or disk that no process starts."""
    for role, asked in settings.resources.items():
        for key, given in (("memory", asked.memory), ("disk", asked.disk)):
            if amount(given) < _LEAST_BYTES:
                raise errors.UsageError(
                    f"CLUSTER=k8s: k8s.resources.{role}.{key}: must be at least 1Mi, got {given}, "
                    f"which is {amount(given):,.0f} bytes. Give it a unit, such as 4096Mi or 4Gi"
                )


def _check_mount(job: Job, settings: K8s) -> None:
    """Raises `UsageError` for a claim that does not hold `STORAGE`, or that hides what else is
    mounted."""
    if storage.is_remote(job.storage_root):
        raise errors.UsageError(
            f"CLUSTER=k8s: STORAGE is {job.storage_root!r}, which the claim k8s.pvc={settings.pvc} "
            "cannot hold. Leave out k8s.pvc, or use a folder of the claim as STORAGE"
        )
    mount = _mount(job)
    if not f"{job.storage_root}/".startswith(f"{mount.rstrip('/')}/"):
        raise errors.UsageError(
            f"CLUSTER=k8s: STORAGE is {job.storage_root!r}, which is not in k8s.mount_path "
            f"{mount!r}. Use a folder in it"
        )
    folder = f"/{os.path.normpath(mount).strip('/')}/".replace("//", "/")
    if ":" in mount or _overlaps(f"{_FOLDER}/", folder):
        taken = "has a colon" if ":" in mount else f"overlaps with {_FOLDER}, where the config is"
    elif folder == f"{_TMP}/":
        taken = "is for the temporary files of pods"
    elif hidden := [one for one in _OF_IMAGE if _overlaps(f"{one}/", folder)]:
        taken = f"overlaps with {', '.join(hidden)} of the image"
    else:
        return
    raise errors.UsageError(
        f"CLUSTER=k8s: the claim would be mounted at {mount!r}, which {taken}. Use another folder "
        "as k8s.mount_path, with STORAGE in it"
    )


def _overlaps(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def image(job: Job) -> str | None:
    """Returns the image of the pods, if the config names one."""
    return K8s.of(job.config).image or Gcp.of(job.config).image


def _mount(job: Job) -> str:
    return K8s.of(job.config).mount_path or job.storage_root


def template(
    wanted: Rendering, role: str, flags: list[str], *, container: str = CONTAINER
) -> dict[str, Any]:
    """Returns the pod template of a role; `flags` tell a process its place in the cluster."""
    settings = wanted.settings
    optional = {
        "serviceAccountName": settings.service_account,
        "priorityClassName": settings.priority_class,
        "nodeSelector": settings.node_selector,
        "tolerations": [_build_toleration(one) for one in settings.tolerations],
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
    }
    return {
        "metadata": {"labels": {**wanted.build_labels(), ROLE: role}},
        "spec": {
            "restartPolicy": "Never",
            **{name: value for name, value in optional.items() if value},
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _compute_grace(wanted),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": settings.run_as_user,
                "runAsGroup": settings.run_as_user,
                "fsGroup": settings.run_as_user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_build_container(wanted, role, flags, name=container)],
            "volumes": _build_volumes(wanted, role),
        },
    }


def _compute_grace(wanted: Rendering) -> int:
    """Seconds until a process is killed that was asked to end: to end its step, and to save."""
    return math.ceil(wanted.job.config.cluster.stop_seconds) + _SAVING


def _build_toleration(one: Any) -> dict[str, Any]:
    return {name: value for name, value in one.model_dump().items() if value}


def _build_container(
    wanted: Rendering, role: str, flags: list[str], *, name: str
) -> dict[str, Any]:
    settings = wanted.settings
    promised = settings.get_resources(role).gpus
    given = {gpus.PROMISED: str(promised)} if promised else {}
    env = [
        *containers.environment(wanted.job, wanted.submission, given),
        {"name": start_patience.VARIABLE, "value": str(round(settings.wait_minutes * 60))},
        {"name": "HOME", "value": _TMP},
    ]
    secrets = [{"secretRef": {"name": secret}} for secret in settings.env_from]
    port = [{"name": "tf", "containerPort": settings.port}]
    return {
        "name": name,
        "image": image(wanted.job),
        "command": ["python"],
        "args": [*containers.arguments(wanted.job, f"{_FOLDER}/{FILE}"), *flags],
        "env": env,
        **({"envFrom": secrets} if secrets else {}),
        **({"ports": port} if role != topology.EVALUATOR else {}),
        "resources": _build_resources(wanted, role),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # The last lines of a process that could not write to the run folder.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _build_mounts(wanted),
    }


def _build_resources(wanted: Rendering, role: str) -> dict[str, Any]:
    asked = wanted.settings.get_resources(role)
    fixed = {"memory": asked.memory, "ephemeral-storage": asked.disk}
    limits: dict[str, Any] = {"cpu": asked.cpu_limit} if asked.cpu_limit else {}
    devices = {"nvidia.com/gpu": str(asked.gpus)} if asked.gpus else {}
    requests = {"cpu": asked.cpu, **fixed, **devices}
    return {"requests": requests, "limits": {**limits, **fixed, **devices}}


def _build_mounts(wanted: Rendering) -> list[dict[str, Any]]:
    shared = [{"name": "storage", "mountPath": _mount(wanted.job)}]
    return [
        {"name": "config", "mountPath": _FOLDER, "readOnly": True},
        {"name": "tmp", "mountPath": _TMP},
        *(shared if wanted.settings.pvc else []),
    ]


def _build_volumes(wanted: Rendering, role: str) -> list[dict[str, Any]]:
    claim = {"claimName": wanted.settings.pvc}
    shared = [{"name": "storage", "persistentVolumeClaim": claim}]
    return [
        {"name": "config", "configMap": {"name": wanted.name}},
        {"name": "tmp", "emptyDir": {"sizeLimit": wanted.settings.get_resources(role).disk}},
        *(shared if wanted.settings.pvc else []),
    ]


def flags(wanted: Rendering, role: str, hosts: dict[str, list[str]]) -> list[str]:
    """Returns the flags of a process; `hosts` are the names of the pods of each role. Kubernetes
    puts the index of a pod in the place of the variable."""
    cluster = {
        one: [f"{host}:{wanted.settings.port}" for host in hosts[one]]
        for one in wanted.roles
        if one != topology.EVALUATOR
    }
    alone = sum(map(len, cluster.values())) == 1
    spec = json.dumps(cluster, separators=(",", ":"))
    return [
        f"--job_name={role}",
        "--task_index=$(JOB_COMPLETION_INDEX)",
        *([] if alone else [f"--cluster_spec={spec}"]),
    ]
