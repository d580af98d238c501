import dataclasses
import json

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers.k8s import tfjob
from pipeline.runs import fatal
from tests.pipeline.jobs.jobs import plan


def test_roles_have_the_names_and_the_container_the_operator_looks_for():
    spec = tfjob.render(plan("cluster.workers=2"), "s")["spec"]
    replicas = spec["tfReplicaSpecs"]
    assert {name: one["replicas"] for name, one in replicas.items()} == {
        "Chief": 1, "Worker": 2, "PS": 1, "Evaluator": 1,
    }  # fmt: skip
    for one in replicas.values():
        (container,) = one["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]


def test_pods_find_the_config_that_was_planned(tmp_path):
    wanted = plan("train.batch_size=17")
    config_map, job = tfjob.documents(wanted, "s")
    (pod,) = {json.dumps(one["template"]) for one in job["spec"]["tfReplicaSpecs"].values()}
    spec = json.loads(pod)["spec"]
    assert spec["volumes"][0]["configMap"]["name"] == config_map["metadata"]["name"]
    folder = spec["containers"][0]["volumeMounts"][0]["mountPath"]
    (given,) = [word for word in spec["containers"][0]["args"] if word.startswith("--config=")]
    (name,) = config_map["data"]
    assert given == f"--config={folder}/{name}"
    (tmp_path / name).write_text(config_map["data"][name])
    assert config_file.load(str(tmp_path / name)) == wanted.config


def test_a_secret_is_not_in_what_is_applied():
    documents = tfjob.documents(plan("model={name: my:fn, params: {api_token: abc123}}"), "s")
    assert "abc123" not in json.dumps(documents)
    assert "api_token: '[hidden]'" in documents[0]["data"]["config.yaml"]


def test_the_evaluator_is_left_to_finish():
    assert tfjob.render(plan(), "s")["spec"]["runPolicy"]["cleanPodPolicy"] == "None"


def test_every_pod_knows_the_submission_that_it_is_restarted_in():
    replicas = tfjob.render(plan(), "s")["spec"]["tfReplicaSpecs"]
    assert {one["restartPolicy"] for one in replicas.values()} == {"OnFailure"}
    for one in replicas.values():
        (container,) = one["template"]["spec"]["containers"]
        assert {"name": fatal.SUBMISSION, "value": "s"} in container["env"]


def test_gpus_are_asked_for_as_kubernetes_calls_them():
    machine = "gcp.machines={worker: {accelerator: NVIDIA_TESLA_T4, accelerators: 2}}"
    replicas = tfjob.render(plan(machine), "s")["spec"]["tfReplicaSpecs"]
    limits = [
        one["template"]["spec"]["containers"][0]["resources"].get("limits")
        for one in replicas.values()
    ]
    assert limits == [None, {"nvidia.com/gpu": 2}, None, None]


@pytest.mark.parametrize("name", ["2024-run", "run.", "r" * 52])
def test_names_that_services_of_pods_cannot_have_are_refused(name):
    wanted = dataclasses.replace(plan(), name=name)
    with pytest.raises(errors.UsageError, match=rf"run '{name}': .* at most 51 characters; use an"):
        tfjob.render(wanted, "s")


def test_a_name_may_be_as_long_as_services_allow():
    longest = "r" + "_" * 49 + "1"
    assert tfjob.render(dataclasses.replace(plan(), name=longest), "s")["metadata"]["name"] == (
        longest.replace("_", "-")
    )


@pytest.mark.parametrize(
    ("overrides", "root", "words"),
    [
        (["gcp.image=null"], "gs://b/r", "CLUSTER=k8s: missing: IMAGE="),
        ([], "/local", r"which pods do not share. Give STORAGE=gs://"),
    ],
)
def test_what_pods_cannot_do_is_refused(overrides, root, words):
    with pytest.raises(errors.UsageError, match=words):
        tfjob.render(plan(*overrides, storage_root=root), "s")
