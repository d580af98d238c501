"""What the cluster or this machine does not allow: a real kubectl and a double of the API."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.launchers.k8s import launcher
from pipeline.runs import run_record
from tests.pipeline.launchers.k8s import api as apis
from tests.pipeline.launchers.k8s.following import NEEDS_KUBECTL, kinds

pytestmark = NEEDS_KUBECTL


def refuse_kind(api):
    api.forbidden = {("create", "jobsets")}


def refuse_namespace(api):
    api.namespaces = []


def refuse_login(api):
    api.unauthorized = True


def remove_claim(api):
    api.objects.clear()


def remove_jobset(api):
    api.missing_groups = {"jobset.x-k8s.io"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "overrides", "words"),
    [
        (refuse_kind, [], 'jobsets.* is forbidden: User "ann" .* administrator for a role that ma'),
        (
            refuse_namespace,
            [],
            'namespaces "team" not found. Create it, or choose another k8s.name',
        ),
        (refuse_login, [], "You must be logged in to the server .* Log in to the cluster again$"),
        (remove_claim, [], r"k8s.pvc: namespace 'team' has no persistentvolumeclaim 'data'. Creat"),
        (remove_jobset, ["k8s.kind=jobset"], "has no JobSet. Have it installed, or leave out k8s."),
        (
            remove_jobset,
            ["cluster.strategy=multi_worker_mirrored"],
            "restarts all processes together, which plain Jobs cannot. Install JobSet",
        ),
        (None, ["k8s.env_from=[keys]"], r"k8s.env_from: namespace 'team' has no secret 'keys'."),
        (None, ["k8s.service_account=a"], "namespace 'team' has no serviceaccount 'a'. Create it"),
        (None, ["k8s.context=moon"], "kubectl has no context 'moon'; it has here. Choose one with"),
        (None, ["model.name=mine.models:net"], "names mine.models, which the image does not hav"),
        (None, ["k8s.image=null"], "CLUSTER=k8s: missing: IMAGE= or k8s.image"),
        (None, ["k8s.pvc=null"], "which pods do not see. Use STORAGE=gs://bucket/folder, or name"),
        (None, ["k8s.mount_path=/moon"], "which is not in k8s.mount_path '/moon'. Use a folder"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_there(following, change, overrides, words):
    if change:
        change(following.api)
    with pytest.raises(errors.UsageError, match=words) as caught:
        following.run(overrides=overrides)
    assert "\n" not in str(caught.value)
    assert kinds(following.api) == []


@pytest.mark.slow
def test_a_secret_is_not_given_to_the_cluster(following):
    secret = "model={name: my:fn, params: {api_token: abc123}}"
    with pytest.raises(errors.UsageError, match=r"model.params.api_token looks like a secret") as e:
        following.run(overrides=[secret, "k8s.image_modules=[my]"])
    assert "abc123" not in str(e.value)


def test_nothing_is_left_of_a_submission_that_fails_half_way(following):
    following.api.failing = {"jobsets"}
    with pytest.raises(
        errors.RetryableError, match=r"the disk is full. Run the same command again"
    ):
        following.run()
    assert kinds(following.api) == []
    assert run_record.read(following.run_folder).status == "failed"


@pytest.mark.slow
def test_without_an_answer_the_command_may_be_run_again(following, tmp_path):
    apis.write_kubeconfig(tmp_path / "kubeconfig", 9)
    with pytest.raises(errors.RetryableError, match=r"refused .* Run the same command again\.$"):
        following.run()


@pytest.mark.slow
def test_without_kubectl_or_context_it_says_what_to_do(following, tmp_path, monkeypatch):
    (tmp_path / "kubeconfig").write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(errors.UsageError, match=r"kubectl has no current context. Choose one of"):
        following.run()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.UsageError, match=r"^CLUSTER=k8s: no kubectl on this machine. Insta"):
        following.run()


@pytest.mark.slow
def test_doctor_says_whether_the_cluster_can_be_used(following, tmp_path):
    def found() -> list[str]:
        return [str(one) for one in launcher.K8sLauncher().checks(str(tmp_path))][-3:]

    assert found() == [
        "ok   the cluster of kubectl's context 'here' answers",
        "ok   the cluster has JobSet",
        "ok   you may create jobs in namespace 'team'",
    ]
    following.api.forbidden = {("create", "jobs")}
    assert found()[-1].startswith("FIX  ")
