from pipeline.launchers.k8s import manifest
from pipeline.runs import fatal
from tests.pipeline.jobs.jobs import plan


def spec(*overrides: str) -> dict:
    return manifest.build_documents(plan("k8s.kind=tfjob", *overrides), "s1234567")[-1]["spec"]


def test_roles_have_the_names_and_the_container_the_operator_looks_for():
    replicas = spec("cluster.workers=2")["tfReplicaSpecs"]
    assert {name: one["replicas"] for name, one in replicas.items()} == {
        "Chief": 1, "Worker": 2, "PS": 1, "Evaluator": 1,
    }  # fmt: skip
    for one in replicas.values():
        (container,) = one["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
        assert not any("--job_name" in word for word in container["args"])


def test_the_evaluator_is_left_to_finish():
    assert spec()["runPolicy"]["cleanPodPolicy"] == "None"
    assert spec()["successPolicy"] == "AllWorkers"


def test_every_pod_knows_the_submission_that_it_is_restarted_in():
    replicas = spec()["tfReplicaSpecs"]
    assert {one["restartPolicy"] for one in replicas.values()} == {"OnFailure"}
    for one in replicas.values():
        (container,) = one["template"]["spec"]["containers"]
        assert {"name": fatal.SUBMISSION, "value": "s1234567"} in container["env"]
