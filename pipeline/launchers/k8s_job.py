"""The TFJob of a job, for the Training Operator v1 of Kubeflow. Pure.

The operator is a legacy one: its successor has no TensorFlow with parameter servers. It sets
`TF_CONFIG`, in which the evaluator has an address too (traps G5).
"""

from __future__ import annotations

from typing import Any

from pipeline import errors, topology
from pipeline.job import Job
from pipeline.launchers import gcp_job

_NAMES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
_PORT = 2222


def render(job: Job) -> dict[str, Any]:
    """Returns the manifest. Raises `UsageError` for a config without image, or a run on a disk."""
    if job.config.gcp.image is None:
        raise errors.UsageError("CLUSTER=k8s: missing: IMAGE=")
    if not job.run.path.startswith("gs://"):
        raise errors.UsageError(
            f"CLUSTER=k8s: the run would be in {job.run.path!r}, which pods do not share. Give "
            "STORAGE=gs://bucket/folder"
        )
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {
            "name": job.name.replace("_", "-").replace(".", "-"),
            "labels": {"pipeline": "estimator-pipeline", **job.config.gcp.labels},
        },
        "spec": {
            # The evaluator works on when the chief has ended, and every process ends by itself.
            "runPolicy": {
                "cleanPodPolicy": "None",
                "backoffLimit": 10,
                "activeDeadlineSeconds": round(job.config.gcp.timeout_hours * 3600),
            },
            "successPolicy": "AllWorkers",
            "tfReplicaSpecs": {
                _NAMES[role]: _replicas(job, role)
                for role in topology.ROLES
                if job.counts.get(role)
            },
        },
    }


def _replicas(job: Job, role: str) -> dict[str, Any]:
    machine = job.config.gcp.machine(role)
    resources = {"limits": {"nvidia.com/gpu": machine.accelerators}} if machine.accelerators else {}
    container = {
        "name": "tensorflow",  # the operator looks for this name
        "image": job.config.gcp.image,
        "command": ["python"],
        "args": gcp_job.arguments(job),
        "ports": [{"name": "tfjob-port", "containerPort": _PORT}],
        "resources": resources,
    }
    return {
        "replicas": job.counts[role],
        # Our exit codes for what cannot be mended by trying again are below 128.
        "restartPolicy": "OnFailure",
        "template": {"spec": {"containers": [container]}},
    }
