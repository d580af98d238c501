"""The TFJob of a job, for the Training Operator v1 of Kubeflow. Pure.

The operator is a legacy one: its successor has no TensorFlow with parameter servers. It sets
`TF_CONFIG`, in which the evaluator has an address too (docs/tensorflow-pitfalls.md#tfjob). It
restarts what fails, whichever exit code it had: `pipeline.runs.fatal` keeps it from computing again
what has failed for good.
"""

from __future__ import annotations

from typing import Any

from pipeline.launchers.k8s import pod
from pipeline.launchers.k8s.pod import Rendering
from pipeline.launchers.k8s.settings import seconds
from pipeline.runs import evaluator_patience

_NAMES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
# The operator looks for these names.
_CONTAINER, _PORT = "tensorflow", "tfjob-port"


def render(wanted: Rendering) -> dict[str, Any]:
    """Returns the TFJob."""
    settings = wanted.settings
    deadline = settings.timeout_hours
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": wanted.build_queued_metadata(),
        "spec": {
            # The evaluator works on when the chief has ended, and every process ends by itself.
            "runPolicy": {
                "cleanPodPolicy": "None",
                # For all pods together.
                "backoffLimit": settings.max_restarts,
                "ttlSecondsAfterFinished": seconds(settings.keep_hours),
                **({"activeDeadlineSeconds": seconds(deadline)} if deadline else {}),
            },
            "successPolicy": "AllWorkers",
            "tfReplicaSpecs": {
                _NAMES[role]: _build_replicas(wanted, role) for role in wanted.roles
            },
        },
    }


def _build_replicas(wanted: Rendering, role: str) -> dict[str, Any]:
    template = pod.template(wanted, role, [], container=_CONTAINER)
    del template["spec"]["restartPolicy"]  # the operator's own
    (container,) = template["spec"]["containers"]
    # The job ends well when its chief does, whatever becomes of the evaluator.
    container["env"].append(
        {"name": evaluator_patience.VARIABLE, "value": str(evaluator_patience.USUAL)}
    )
    container["ports"] = [{"name": _PORT, "containerPort": wanted.settings.port}]
    # Not ExitCode, which takes all below 128 for final: our 75 is not.
    return {
        "replicas": wanted.job.counts[role],
        "restartPolicy": "OnFailure",
        "template": template,
    }
