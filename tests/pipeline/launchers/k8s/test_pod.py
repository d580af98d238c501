import dataclasses
import re

import pytest

from pipeline import errors
from pipeline.cluster import gpus
from pipeline.launchers.k8s import pod
from tests.pipeline.jobs.jobs import plan


def rendering(name: str = "r1", **changes) -> pod.Rendering:
    job = dataclasses.replace(plan(), name=name, **changes)
    return pod.Rendering(job, "5f2c41aa00112233")


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("mnist", "mnist-5f2c41"),
        ("My_run.2", "my-run-2-5f2c41"),
        ("2024-run.", "run-2024-run-5f2c41"),
        ("r" * 80, "r" * 30 + "-5f2c41"),
        ("a" * 29 + "-b", "a" * 29 + "-5f2c41"),
        ("_", "run-5f2c41"),
    ],
)
def test_objects_are_called_as_kubernetes_allows(run, name):
    made = rendering(run)
    assert made.name == name
    # The longest name of a pod: role, job index, index and what its Job adds.
    assert len(f"{name}-evaluator-0-9999-abcde") <= 63


def test_runs_in_different_folders_have_different_labels():
    one = pod.folder_label(plan(storage_root="gs://a/x"))
    assert one != pod.folder_label(plan(storage_root="gs://b/x"))
    assert one == pod.folder_label(plan(storage_root="gs://a/x"))


def test_processes_are_distinguished_by_flags():
    made = rendering()
    hosts = {"chief": ["c.d"], "worker": ["w.d"], "ps": ["p.d"], "evaluator": ["e.d"]}
    assert pod.flags(made, "worker", hosts) == [
        "--job_name=worker",
        "--task_index=$(JOB_COMPLETION_INDEX)",
        '--cluster_spec={"chief":["c.d:2222"],"worker":["w.d:2222"],"ps":["p.d:2222"]}',
    ]


def test_a_process_has_time_to_end_its_step_and_to_save():
    template = pod.template(pod.Rendering(plan("cluster.stop_seconds=45.5"), "s" * 16), "chief", [])
    assert template["spec"]["terminationGracePeriodSeconds"] == 46 + 90


def test_gpus_are_asked_for_as_kubernetes_calls_them():
    job = plan("k8s.resources={worker: {gpus: 2}}")
    made = pod.Rendering(job, "s" * 16)
    worker, chief = (
        pod.template(made, role, [])["spec"]["containers"][0]["resources"]
        for role in ("worker", "chief")
    )
    assert worker["limits"]["nvidia.com/gpu"] == worker["requests"]["nvidia.com/gpu"] == "2"
    assert "nvidia.com/gpu" not in chief["limits"]


def test_processes_know_the_gpus_they_were_promised():
    made = pod.Rendering(plan("k8s.resources={worker: {gpus: 2}}"), "s" * 16)
    for role, promised in (("worker", ["2"]), ("chief", [])):
        [container] = pod.template(made, role, [])["spec"]["containers"]
        found = [one["value"] for one in container["env"] if one["name"] == gpus.PROMISED]
        assert found == promised


@pytest.mark.parametrize(
    ("storage", "mount", "words"),
    [
        ("gs://bkt/out", None, "'gs://bkt/out', which the claim k8s.pvc=c cannot hold. Leave out"),
        ("gs://bkt/out", "/shared", "which the claim k8s.pvc=c cannot hold. Leave out k8s.pvc"),
        ("/shared/out", "/moon", "'/shared/out', which is not in k8s.mount_path '/moon'. Use a"),
        ("/tmp", None, "mounted at '/tmp', which is for the temporary files of pods. Use another"),
        ("/tmp/out", "/tmp/", "mounted at '/tmp/', which is for the temporary files of pods."),
        ("//tmp", None, "mounted at '//tmp', which is for the temporary files"),
        ("/etc/estimator-pipeline", None, "which overlaps with /etc/estimator-pipeline, where"),
        ("/etc/estimator-pipeline/a", None, "which overlaps with /etc/estimator-pipeline, where"),
        ("/etc/out", "/etc", "mounted at '/etc', which overlaps with /etc/estimator-pipeline"),
        ("/", None, "mounted at '/', which overlaps with /etc/estimator-pipeline"),
        (
            "/usr/x",
            "/usr",
            "'/usr', which overlaps with /usr/bin, /usr/lib, /usr/local/bin, /usr/l",
        ),
        (
            "/app",
            None,
            "mounted at '/app', which overlaps with /app/pipeline, /app/preprocessing, /app",
        ),
        (
            "/dev",
            None,
            "mounted at '/dev', which overlaps with /dev/null of the image. Use another",
        ),
        ("/usr/local/lib/python3.11", None, "which overlaps with /usr/local/lib of the image"),
        ("/a:b", None, "mounted at '/a:b', which has a colon. Use another folder as k8s.mount_pat"),
    ],
)
def test_a_claim_that_cannot_be_mounted_is_refused(storage, mount, words):
    given = [] if mount is None else [f"k8s.mount_path={mount}"]
    with pytest.raises(errors.UsageError, match=re.escape(words)) as caught:
        pod.check(plan("k8s.pvc=c", *given, storage_root=storage))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("storage", "mount"), [("/shared/out", "/shared/"), ("/tmp/out", None), ("/etcetera", None)]
)
def test_a_claim_is_mounted_elsewhere(storage, mount):
    given = [] if mount is None else [f"k8s.mount_path={mount}"]
    pod.check(plan("k8s.pvc=c", *given, storage_root=storage))
