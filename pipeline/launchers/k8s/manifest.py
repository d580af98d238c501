"""All objects of a job, as `kubectl create` takes them. Pure: DRY_RUN=1 shows them.

By default a job is a JobSet with an Indexed Job for each role. Without JobSet it is the Jobs alone,
with a headless Service for the names of their pods.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.jobs.job import Job
from pipeline.launchers.k8s import pod, tfjob
from pipeline.launchers.k8s.pod import Rendering
from pipeline.launchers.k8s.settings import K8s, seconds

JOBSET_API = "jobset.x-k8s.io/v1alpha2"
# By which the kinds of `k8s.kind` are asked for.
RESOURCES = {
    "jobset": "jobsets.jobset.x-k8s.io",
    "job": "jobs.batch",
    "tfjob": "tfjobs.kubeflow.org",
}
# Objects of a job besides these.
OTHERS = ("configmaps", "networkpolicies.networking.k8s.io", "services")


def build_documents(job: Job, submission: str) -> list[dict[str, Any]]:
    """Returns the objects in the order of their creation: what runs pods comes last.

    `submission` is one that no other job of the run has had. Raises `UsageError` for a job that
    Kubernetes cannot run.
    """
    kind = K8s.of(job.config).kind or "jobset"
    pod.check(job)
    wanted = Rendering(job, submission)
    check_kind(wanted, kind)
    needed = [_build_config_map(wanted), _build_network_policy(wanted)]
    if kind == "tfjob":
        return [*needed, tfjob.render(wanted)]
    if kind == "jobset":
        return [*needed, _build_job_set(wanted)]
    return [
        *needed,
        _build_service(wanted),
        *(_build_plain_job(wanted, role) for role in wanted.roles),
    ]


# Texts that PyYAML leaves plain and kubectl reads as something else: what begins like a number, and
# YAML 1.1's shortest words for true and false (https://yaml.org/type/bool.html).
_NO_TEXT = re.compile(r"[0-9+.-].*|[yYnN]", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """Writes each value where it is, and quotes each text that YAML 1.1 or 1.2 reads as none."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else '"' if _NO_TEXT.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(documents: list[dict[str, Any]]) -> str:
    """Returns objects as the text of a file that kubectl reads."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=1 << 20))


def check_kind(wanted: Rendering, kind: str) -> None:
    """Raises `UsageError` for a strategy that plain Jobs cannot restart."""
    if kind == "job" and wanted.unit == "gang":
        strategy = wanted.job.config.cluster.strategy
        raise errors.UsageError(
            f"CLUSTER=k8s: strategy {strategy!r} restarts all processes together, which plain Jobs "
            "cannot. Install JobSet in the cluster, or use strategy 'parameter_server'"
        )


def _build_config_map(wanted: Rendering) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": wanted.build_metadata(),
        "immutable": True,
        "data": {pod.FILE: config_file.dump(wanted.job.config)},
    }


def _build_network_policy(wanted: Rendering) -> dict[str, Any]:
    """Lets only the pods of the job reach TensorFlow's servers, which run what they are
    sent."""
    ours = {"matchLabels": {pod.SET: wanted.name}}
    port = {"protocol": "TCP", "port": wanted.settings.port}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": wanted.build_metadata(),
        "spec": {
            "podSelector": ours,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": ours}], "ports": [port]}],
        },
    }


def _build_service(wanted: Rendering) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": wanted.build_metadata(),
        "spec": {
            "clusterIP": "None",
            "selector": {pod.SET: wanted.name},
            "publishNotReadyAddresses": True,
        },
    }


def job_name(name: str, kind: str, role: str) -> str:
    """Returns the name of the Job of a role, to which pods add their index. JobSet numbers the Jobs
    that it makes of one template."""
    return f"{name}-{role}-0" if kind == "jobset" else f"{name}-{role}"


def _build_job_set(wanted: Rendering) -> dict[str, Any]:
    hosts = {
        role: [f"{job_name(wanted.name, 'jobset', role)}-{i}.{wanted.name}" for i in range(count)]
        for role, count in wanted.addressed.items()
    }
    return {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": wanted.build_queued_metadata(),
        "spec": {
            "network": {
                "enableDNSHostnames": True,
                "subdomain": wanted.name,
                "publishNotReadyAddresses": True,
            },
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [wanted.decides]},
            "failurePolicy": {
                "maxRestarts": wanted.settings.max_restarts,
                "restartStrategy": "BlockingRecreate",
                "rules": [
                    _fail("failed_for_good", "PodFailurePolicy"),
                    _fail("out_of_time", "DeadlineExceeded"),
                ],
            },
            "ttlSecondsAfterFinished": seconds(wanted.settings.keep_hours),
            "replicatedJobs": [
                {
                    "name": role,
                    "replicas": 1,
                    "template": {
                        "metadata": {"labels": wanted.build_labels()},
                        "spec": _build_job_spec(wanted, role, hosts, more={}),
                    },
                }
                for role in wanted.roles
            ],
        },
    }


def _fail(name: str, reason: str) -> dict[str, Any]:
    return {"name": name, "action": "FailJobSet", "onJobFailureReasons": [reason]}


def _build_plain_job(wanted: Rendering, role: str) -> dict[str, Any]:
    hosts = {
        one: [f"{job_name(wanted.name, 'job', one)}-{i}.{wanted.name}" for i in range(count)]
        for one, count in wanted.addressed.items()
    }
    queued = wanted.build_queued_metadata()
    labels = {**queued["labels"], pod.ROLE: role}
    spec = _build_job_spec(wanted, role, hosts, more={"subdomain": wanted.name})
    spec["ttlSecondsAfterFinished"] = seconds(wanted.settings.keep_hours)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**queued, "name": job_name(wanted.name, "job", role), "labels": labels},
        "spec": spec,
    }


def _build_job_spec(
    wanted: Rendering, role: str, hosts: dict[str, list[str]], *, more: dict[str, Any]
) -> dict[str, Any]:
    count = wanted.job.counts[role]
    template = pod.template(wanted, role, pod.flags(wanted, role, hosts))
    template["spec"] |= more
    hours = wanted.settings.timeout_hours
    return {
        "completions": count,
        "parallelism": count,
        "completionMode": "Indexed",
        **({"activeDeadlineSeconds": seconds(hours)} if hours else {}),
        **_build_restart_policy(wanted, role),
        "podReplacementPolicy": "Failed",
        "template": template,
    }


def _build_restart_policy(wanted: Rendering, role: str) -> dict[str, Any]:
    """Returns when a Job restarts a pod, and when it fails. A gang fails as a whole with each loss;
    the evaluator is never part of one."""
    final = {
        "action": "FailJob",
        "onExitCodes": {
            "containerName": pod.CONTAINER,
            "operator": "In",
            "values": sorted(errors.FINAL_CODES),
        },
    }
    evicted = {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }
    if wanted.unit == "gang" and role != topology.EVALUATOR:
        return {"backoffLimit": 0, "podFailurePolicy": {"rules": [final]}}
    return {
        "backoffLimitPerIndex": wanted.settings.max_restarts,
        "maxFailedIndexes": 0,
        "podFailurePolicy": {"rules": [final, evicted]},
    }
