"""How a job is doing, by the objects that the cluster has of it. Pure.

Conditions of JobSets, Jobs, TFJobs and pods are those of their documentation: "Completed",
"Failed", "Suspended" (kubernetes-sigs/jobset, api/jobset/v1alpha2), "Complete" (batch/v1),
"Succeeded" (kubeflow.org/v1), and "PodScheduled" with the reason "Unschedulable" (core/v1).
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Any

from pipeline.cluster import topology
from pipeline.launchers.k8s import pod
from pipeline.launchers.remote import Phase

_GOOD = ("Completed", "Complete", "Succeeded")
# A container with such a reason does not start, whatever happens later.
_NEVER = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
_PULL = ("ErrImagePull", "ImagePullBackOff")
# In what a registry answers for an image that it will not give.
_REFUSED = (
    "not found",
    "manifest unknown",
    "unauthorized",
    "denied",
    "forbidden",
    "not exist",
    "failed to resolve reference",
    "no match for platform",
)
# Registries may be down for a while.
_PULL_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why a pod does not start, and what to do; `is_final` if waiting does not help."""

    text: str
    fix: str
    is_final: bool

    def __str__(self) -> str:
        return f"{self.text}. {self.fix}"


@dataclasses.dataclass(frozen=True)
class JobProgress:
    """What is known of a job. `exits` are the last ends of processes: (task, exit code, reason,
    last lines)."""

    phase: Phase
    word: str
    text: str
    problems: tuple[Problem, ...] = ()
    exits: tuple[tuple[str, int, str, str], ...] = ()


def read_progress(
    kind: str, workloads: list[dict[str, Any]], pods: list[dict[str, Any]], *, now: float
) -> JobProgress:
    """Returns the progress of a job of a kind; `workloads` are its JobSet, TFJob or Jobs."""
    exits = tuple(_exits(pods))
    deciding = [one for one in workloads if kind != "job" or _decides(one, workloads)]
    failed = [text for one in workloads if (text := _find_condition(one, "Failed")) is not None]
    if failed:
        return JobProgress(Phase.ENDED, "failed", f"failed: {failed[0]}", exits=exits)
    if deciding and all(any(_find_condition(o, w) is not None for w in _GOOD) for o in deciding):
        return JobProgress(Phase.ENDED, "succeeded", "succeeded", exits=exits)
    problems = tuple(problem for one in pods for problem in _find_problems(one, now))
    running = sum(_find_phase(one) == "Running" for one in pods)
    chief_began = any(
        _read_role(one) == topology.CHIEF and _find_phase(one) != "Pending" for one in pods
    )
    word = "running" if chief_began else "waiting"
    text = f"{word}, {running} of {len(pods)} pods run"
    if any(_find_condition(one, "Suspended") is not None for one in workloads):
        text = "waiting, suspended: the queue has not admitted it"
    if problems:
        text = f"{text}; {problems[0]}"
    phase = Phase.RUNNING if chief_began else Phase.WAITING
    return JobProgress(phase, word, text, problems, exits)


def _decides(one: dict[str, Any], workloads: list[dict[str, Any]]) -> bool:
    """True for the Job whose success is that of all: the evaluator's, or that of a chief alone."""
    roles = {_read_role(other) for other in workloads}
    wanted = topology.EVALUATOR if topology.EVALUATOR in roles else topology.CHIEF
    return _read_role(one) == wanted


def _read_role(one: dict[str, Any]) -> str:
    labels = one.get("metadata", {}).get("labels", {})
    # The legacy operator has labels of its own, in addition.
    return str(labels.get(pod.ROLE, ""))


def _find_phase(one: dict[str, Any]) -> str:
    return str(one.get("status", {}).get("phase", "Pending"))


def _find_condition(one: dict[str, Any], kind: str) -> str | None:
    """Returns what a condition that holds says, or `None`."""
    for condition in one.get("status", {}).get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == "True":
            said = condition.get("message") or condition.get("reason") or kind
            return str(said).rstrip(".")
    return None


def task(one: dict[str, Any]) -> str:
    """Returns what a pod is called in a message, such as `worker-1`."""
    metadata = one.get("metadata", {})
    for place in ("annotations", "labels"):
        known = metadata.get(place, {})
        for key in (
            "batch.kubernetes.io/job-completion-index",
            "training.kubeflow.org/replica-index",
        ):
            if key in known:
                return f"{_read_role(one)}-{known[key]}"
    return _read_role(one) or str(metadata.get("name"))


def _find_problems(one: dict[str, Any], now: float) -> Iterable[Problem]:
    name, status = task(one), one.get("status", {})
    role = _read_role(one) or "worker"
    for condition in status.get("conditions") or []:
        if condition.get("reason") == "Unschedulable" and condition.get("status") == "False":
            said = str(condition.get("message", "no node fits")).rstrip(".")
            fix = (
                f"It waits for a node: ask for less in k8s.resources.{role}, change "
                "k8s.node_selector or k8s.tolerations, or add nodes"
            )
            yield Problem(f"{name} has no node: {said}", fix, is_final=False)
    for container in status.get("containerStatuses") or []:
        waiting = container.get("state", {}).get("waiting") or {}
        reason, said = waiting.get("reason", ""), str(waiting.get("message", "")).rstrip(".")
        if reason in _PULL or reason in _NEVER[:2]:
            image = container.get("image") or "the image"
            refused = any(words in said.lower() for words in _REFUSED)
            final = reason in _NEVER or refused or _compute_age(one, now) > _PULL_SECONDS
            fix = "Push it, correct IMAGE=, or give k8s.image_pull_secrets"
            yield Problem(f"{name} cannot pull {image}: {said or reason}", fix, is_final=final)
        elif reason in _NEVER:
            fix = "Create what is missing, or correct k8s.env_from"
            yield Problem(f"{name} cannot start: {said or reason}", fix, is_final=True)


def _compute_age(one: dict[str, Any], now: float) -> float:
    """Returns the seconds since a pod was created; 0 if that is not known."""
    created = one.get("metadata", {}).get("creationTimestamp")
    if not created:
        return 0.0
    return now - datetime.datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp()


def _exits(pods: list[dict[str, Any]]) -> Iterable[tuple[str, int, str, str]]:
    for one in pods:
        for container in one.get("status", {}).get("containerStatuses") or []:
            states = (container.get("state", {}), container.get("lastState", {}))
            for ended in (state.get("terminated") for state in states):
                if ended and ended.get("exitCode"):
                    reason, said = ended.get("reason", ""), ended.get("message", "")
                    yield task(one), int(ended["exitCode"]), str(reason), str(said)
