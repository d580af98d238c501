"""The TFJob of a job, for the Training Operator v1 of Kubeflow. Pure.

The operator is a legacy one: its successor has no TensorFlow with parameter servers. It sets
`TF_CONFIG`, in which the evaluator has an address too (docs/tensorflow-pitfalls.md#tfjob). It
restarts what fails, whichever exit code it had: `pipeline.runs.fatal` keeps it from computing again
what has failed for good.
"""

from __future__ import annotations

import math
import re
from typing import Any

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.jobs.job import Job
from pipeline.launchers import container as containers
from pipeline.launchers.gcp.settings import Gcp

_NAMES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
_PORT = 2222
# Each pod has a service called like it: the name of the job, its role and index.
_NAME, _LONGEST = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?"), 63
# Where pods find the config: nobody has written it to the run folder before they start.
_FOLDER, _FILE, _VOLUME = "/etc/estimator-pipeline", "config.yaml", "config"


def documents(job: Job, submission: str) -> list[dict[str, Any]]:
    """Returns all that has to be applied: the config as a ConfigMap, and the TFJob.

    `submission` is a name that no other job of the run has had. Raises `UsageError` for a
    config without image, or a run on a disk.
    """
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(job),
        "data": {_FILE: config_file.dump(job.config, redacted=True)},
    }
    return [config_map, render(job, submission)]


def render(job: Job, submission: str) -> dict[str, Any]:
    """Returns the TFJob. Raises `UsageError` as `documents` does."""
    if Gcp.of(job.config).image is None:
        raise errors.UsageError("CLUSTER=k8s: missing: IMAGE=")
    if not job.run.path.startswith("gs://"):
        raise errors.UsageError(
            f"CLUSTER=k8s: the run would be in {job.run.path!r}, which pods do not share. Give "
            "STORAGE=gs://bucket/folder"
        )
    _check_name(job)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": _metadata(job),
        "spec": {
            # The evaluator works on when the chief has ended, and every process ends by itself.
            "runPolicy": {
                "cleanPodPolicy": "None",
                "backoffLimit": 10,
                "activeDeadlineSeconds": round(Gcp.of(job.config).timeout_hours * 3600),
            },
            "successPolicy": "AllWorkers",
            "tfReplicaSpecs": {
                _NAMES[role]: _replicas(job, role, submission)
                for role in topology.ROLES
                if job.counts.get(role)
            },
        },
    }


def _metadata(job: Job) -> dict[str, Any]:
    return {
        "name": _name(job),
        "labels": {"pipeline": "estimator-pipeline", **Gcp.of(job.config).labels},
    }


def _name(job: Job) -> str:
    return job.name.replace("_", "-").replace(".", "-")


def _check_name(job: Job) -> None:
    behind = max(len(f"-{role}-{count - 1}") for role, count in job.counts.items() if count)
    if not _NAME.fullmatch(_name(job)) or len(_name(job)) + behind > _LONGEST:
        raise errors.UsageError(
            f"CLUSTER=k8s: run {job.name!r}: there, names begin with a letter, end with a letter "
            f"or digit, and of this job have at most {_LONGEST - behind} characters; use another "
            "RUN="
        )


def _replicas(job: Job, role: str, submission: str) -> dict[str, Any]:
    gcp = Gcp.of(job.config)
    machine = gcp.machine(role)
    resources = {"limits": {"nvidia.com/gpu": machine.accelerators}} if machine.accelerators else {}
    container = {
        "name": "tensorflow",  # the operator looks for this name
        "image": gcp.image,
        "command": ["python"],
        "args": containers.arguments(job, f"{_FOLDER}/{_FILE}"),
        "env": containers.environment(submission),
        "ports": [{"name": "tfjob-port", "containerPort": _PORT}],
        "resources": resources,
        "volumeMounts": [{"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}],
    }
    volume = {"name": _VOLUME, "configMap": {"name": _name(job)}}
    return {
        "replicas": job.counts[role],
        # Not ExitCode, which takes all below 128 for final: our 75 is not.
        "restartPolicy": "OnFailure",
        "template": {
            "spec": {
                "containers": [container],
                "volumes": [volume],
                "terminationGracePeriodSeconds": math.ceil(job.config.cluster.stop_seconds),
            }
        },
    }
