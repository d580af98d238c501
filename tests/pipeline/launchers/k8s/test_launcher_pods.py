"""Pods that wait, never start or fail: a real kubectl and a double of the API."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.runs import fatal, run_record
from tests.pipeline.launchers.k8s.following import NEEDS_KUBECTL, kinds

pytestmark = NEEDS_KUBECTL


def waits(reason: str, message: str = "") -> dict:
    waiting = {"reason": reason, "message": message}
    return {"containerStatuses": [{"image": "images/trainer:1", "state": {"waiting": waiting}}]}


UNSCHEDULABLE = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.",
        }
    ]
}


@pytest.mark.slow
def test_pods_without_a_node_are_waited_for(following, capsys):
    following.run(lambda: following.pods("Pending", **UNSCHEDULABLE), following.finishes)
    assert (
        "Kubernetes: waiting, 0 of 4 pods run; chief-0 has no node: 0/3 nodes are available: "
        "3 Insufficient cpu. It waits for a node: ask for less in k8s.resources.chief, change "
    ) in capsys.readouterr().out


@pytest.mark.slow
def test_pods_that_the_cluster_does_not_create_are_reported(following, capsys):
    def refuse() -> None:
        following.api.put(
            "events",
            "e",
            reason="FailedCreate",
            message='pods "x" is forbidden: exceeded quota: small.',
            involvedObject={"name": f"{following.name}-chief-0"},
        )

    following.run(refuse, following.finishes)
    said = capsys.readouterr().out
    assert 'its pods cannot be created: pods "x" is forbidden: exceeded quota: small. Ch' in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            waits("ErrImagePull", 'failed to resolve reference "images/trainer:1": not found'),
            "chief-0 cannot pull images/trainer:1: failed to .* Push it, correct IMAGE=, or give",
        ),
        (waits("InvalidImageName"), "chief-0 cannot pull images/trainer:1: InvalidImageName"),
        (
            waits("CreateContainerConfigError", 'secret "keys" not found'),
            'chief-0 cannot start: secret "keys" not found. Create what is missing, or correct',
        ),
    ],
)
def test_a_pod_that_will_never_start_ends_the_job(following, status, words):
    with pytest.raises(errors.UsageError, match=words):
        following.run(lambda: following.pods("Pending", **status))
    assert kinds(following.api) == []
    assert run_record.read(following.run_folder).status == "failed"


@pytest.mark.slow
def test_a_registry_that_is_down_is_waited_for(following, capsys):
    down = waits("ImagePullBackOff", "Back-off pulling image: connection refused")
    following.run(lambda: following.pods("Pending", **down), following.finishes)
    assert "chief-0 cannot pull images/trainer:1: Back-off" in capsys.readouterr().out


def ended(code: int, reason: str = "Error", message: str = "") -> dict:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"containerStatuses": [{"state": state}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (ended(65, message="x\nerror: bad records\n"), errors.DataError, "^chief-0: bad records$"),
        (ended(137, "OOMKilled"), errors.UsageError, "ran out of memory. .* k8s.resources.chief.m"),
        (ended(1), errors.RetryableError, "failed: FailedJobs. make logs shows more; the same co"),
    ],
)
def test_a_job_that_recorded_no_end(following, status, kind, words):
    with pytest.raises(kind, match=words):
        following.run(
            lambda: following.pods("Failed", **status),
            lambda: following.ends("Failed", "FailedJobs"),
        )
    assert run_record.read(following.run_folder).status == "failed"


@pytest.mark.slow
def test_the_error_of_a_process_is_that_of_the_command(following):
    def fail() -> None:
        marker = {"submission": "s", "task": "worker-0", "exit_code": 70, "error": "loss is nan"}
        following.run_folder.write(fatal.MARKER, marker)
        following.ends("Failed")

    with pytest.raises(errors.ModelError, match=r"^worker-0: loss is nan$"):
        following.run(fail)


@pytest.mark.slow
def test_a_job_without_result_is_no_success(following):
    with pytest.raises(
        errors.PipelineError, match=r"left no RESULT.json in .* see the same STORAG"
    ):
        following.run(lambda: following.ends("Completed"))
