"""What the states of jobs and pods mean."""

import pytest

from pipeline.launchers.k8s import progress
from pipeline.launchers.remote import Phase


def pod(role: str, phase: str = "Running", **status) -> dict:
    labels = {
        "estimator-pipeline/role": role,
        "batch.kubernetes.io/job-completion-index": "1",
    }
    metadata = {"name": role, "labels": labels, "creationTimestamp": "1970-01-01T00:00:00Z"}
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": phase, **status}}


def workload(condition: str = "", role: str = "") -> dict:
    conditions = [{"type": condition, "status": "True", "message": "why."}] if condition else []
    labels = {"estimator-pipeline/role": role}
    return {"metadata": {"labels": labels}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("kind", "workloads", "phase", "text"),
    [
        ("jobset", [workload("Completed")], Phase.ENDED, "succeeded"),
        ("jobset", [workload("Failed")], Phase.ENDED, "failed: why"),
        ("jobset", [workload("Suspended")], Phase.WAITING, "waiting, suspended: the queue has no"),
        ("tfjob", [workload("Succeeded")], Phase.ENDED, "succeeded"),
        (
            "job",
            [workload("", "chief"), workload("Complete", "evaluator")],
            Phase.ENDED,
            "succeeded",
        ),
        (
            "job",
            [workload("Complete", "chief"), workload("", "evaluator")],
            Phase.WAITING,
            "waiting, 0 of 0 pods run",
        ),
        ("job", [workload("Complete", "chief")], Phase.ENDED, "succeeded"),
        (
            "job",
            [workload("Failed", "worker"), workload("", "evaluator")],
            Phase.ENDED,
            "failed: why",
        ),
    ],
)
def test_a_job_ends_as_its_conditions_say(kind, workloads, phase, text):
    found = progress.read_progress(kind, workloads, [], now=0.0)
    assert found.phase is phase and found.text.startswith(text)


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([pod("chief", "Pending"), pod("worker")], Phase.WAITING),
        ([pod("chief"), pod("worker", "Pending")], Phase.RUNNING),
        ([pod("chief", "Succeeded"), pod("evaluator")], Phase.RUNNING),
    ],
)
def test_a_job_runs_once_its_chief_does(pods, phase):
    assert progress.read_progress("jobset", [workload()], pods, now=0.0).phase is phase


def test_a_registry_gets_ten_minutes():
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    one = pod(
        "worker", "Pending", containerStatuses=[{"image": "i", "state": {"waiting": waiting}}]
    )
    early, late = (
        progress.read_progress("jobset", [workload()], [one], now=now).problems[0]
        for now in (599, 601)
    )
    assert (early.is_final, late.is_final) == (False, True)
    assert str(early).startswith("worker-1 cannot pull i: Back-off pulling image. Push it")
