"""Submitting, following, stopping and finding jobs: a real kubectl and a double of the API."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.launchers import remote_jobs, remote_records
from pipeline.launchers.k8s import launcher
from pipeline.runs import fatal, run_folder, run_record
from tests.pipeline.launchers.k8s import api as apis

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine"),
]
RESULT = {"final_step": 7, "metrics": {"accuracy": 1.0}, "exports": {}}
ROLES = ("chief", "worker", "ps", "evaluator")


@pytest.fixture
def api(tmp_path, monkeypatch):
    with apis.serving() as made:
        apis.write_kubeconfig(tmp_path / "kubeconfig", made.port)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setenv("HOME", str(tmp_path))  # kubectl keeps what it discovers there
        made.put("persistentvolumeclaims", "data")
        yield made


@pytest.fixture(autouse=True)
def without_records(monkeypatch):
    monkeypatch.setattr(remote_records, "with_records", lambda job: job)
    monkeypatch.setattr(remote_records, "pin", lambda job, record: job)


@dataclasses.dataclass
class Following:
    """A launcher whose sleeps are what happens in the cluster meanwhile."""

    api: apis.Api
    folder: str
    cancels: bool = False

    def plan(self, *overrides: str) -> jobs.Job:
        wanted = ["k8s.image=images/trainer:1", "k8s.pvc=data", *overrides]
        return jobs.plan("mnist", wanted, run="r", storage_root=self.folder)

    def run(self, *events, overrides=()) -> run_record.RunRecord:
        waiting = iter(events)

        def sleep(seconds: float) -> None:
            event = next(waiting)
            event()

        made = launcher.K8sLauncher(
            sleep=sleep, clock=lambda: 1000.0, wants_to_cancel=lambda what: self.cancels
        )
        return made.run(self.plan(*overrides), started=0.0)

    @property
    def run_folder(self) -> run_folder.RunFolder:
        return self.plan().run

    @property
    def name(self) -> str:
        return self.api.of("jobsets")[0]["metadata"]["name"]

    def pods(self, phase: str, **status) -> None:
        """Has the cluster make the pods of all roles."""
        for role in ROLES:
            self.api.put(
                "pods",
                f"{self.name}-{role}-0-0-abcde",
                metadata={
                    "labels": {
                        "estimator-pipeline/set": self.name,
                        "estimator-pipeline/role": role,
                        "batch.kubernetes.io/job-completion-index": "0",
                    },
                    "creationTimestamp": "1970-01-01T00:16:00Z",
                },
                status={"phase": phase, **status},
            )

    def ends(self, condition: str, message: str = "jobset ended") -> None:
        known = {"type": condition, "status": "True", "message": message}
        self.api.of("jobsets")[0]["status"] = {"conditions": [known]}

    def finishes(self) -> None:
        self.run_folder.write(run_folder.TRAINING_DONE, {"final_step": 7, "reason": "steps"})
        self.run_folder.write(run_folder.RESULT, RESULT)
        self.ends("Completed", "jobset completed successfully")


@pytest.fixture
def following(api, tmp_path):
    return Following(api, str(tmp_path / "shared"))


def interrupt() -> None:
    raise KeyboardInterrupt


def kinds(api) -> list[str]:
    return sorted(one["kind"] for one in api.objects.values() if one["kind"][0] != "P")


def test_a_job_is_submitted_and_followed_to_its_end(following, capsys):
    record = following.run(
        lambda: following.pods("Pending"), lambda: following.pods("Running"), following.finishes
    )
    assert record.status == "done"
    assert record.job == f"k8s/team/jobset/{following.name}/here"
    said = capsys.readouterr().out
    assert f"JobSet {following.name} in namespace team: Ctrl-C leaves it running" in said
    assert "Kubernetes: waiting, 0 of 0 pods run\n" in said
    assert "Kubernetes: running, 4 of 4 pods run\n" in said
    assert "Kubernetes: succeeded\n" in said


@pytest.mark.slow
def test_the_cluster_deletes_all_objects_with_the_job(following):
    following.run(following.finishes)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": following.name}
    for plural in ("configmaps", "networkpolicies"):
        (one,) = following.api.of(plural)
        (found,) = one["metadata"]["ownerReferences"]
        assert owner.items() <= found.items()


@pytest.mark.slow
def test_without_jobset_it_is_plain_jobs(following):
    following.api.missing_groups = {"jobset.x-k8s.io"}

    def finish() -> None:
        (evaluator,) = [
            one
            for one in following.api.of("jobs")
            if one["metadata"]["labels"]["estimator-pipeline/role"] == "evaluator"
        ]
        evaluator["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        following.run_folder.write(run_folder.TRAINING_DONE, {"final_step": 7, "reason": "steps"})
        following.run_folder.write(run_folder.RESULT, RESULT)

    record = following.run(finish)
    assert record.status == "done" and record.job.startswith("k8s/team/job/r-")
    assert kinds(following.api) == ["ConfigMap", *["Job"] * 4, "NetworkPolicy", "Service"]


@pytest.mark.slow
def test_ctrl_c_leaves_the_job_and_the_same_command_follows_it(following, capsys):
    with pytest.raises(
        errors.RetryableError, match=r"keeps running as JobSet r-.* in namespace te"
    ):
        following.run(interrupt)
    assert following.run(following.finishes).status == "done"
    assert len(following.api.of("jobsets")) == 1
    assert "run r has been submitted already; following it" in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_may_cancel_the_job(following):
    following.cancels = True
    with pytest.raises(errors.RetryableError, match=r"is cancelled. The same command continues"):
        following.run(interrupt)
    assert kinds(following.api) == []


@pytest.mark.slow
def test_a_job_is_found_whose_submission_was_not_recorded(following):
    with pytest.raises(errors.RetryableError):
        following.run(interrupt)
    run = following.run_folder
    record = run_record.read(run)
    name, record.job, record.status = record.job, None, "failed"
    run_record.write(run, record)
    with pytest.raises(errors.RetryableError, match="keeps running"):
        following.run(interrupt)
    assert run_record.read(run).job == name


@pytest.mark.slow
def test_a_job_that_has_ended_is_followed_by_a_new_one(following):
    with pytest.raises(errors.RetryableError, match=r"ended badly. make logs shows more"):
        following.run(lambda: following.ends("Failed", "ended badly"))
    with pytest.raises(errors.RetryableError, match="keeps running"):
        following.run(interrupt)
    first, second = (one["metadata"]["name"] for one in following.api.of("jobsets"))
    assert run_record.read(following.run_folder).job == f"k8s/team/jobset/{second}/here" != first


@pytest.mark.slow
def test_status_stop_and_logs_know_the_job(following):
    with pytest.raises(errors.RetryableError):
        following.run(interrupt)
    run, name = following.run_folder, following.name
    following.pods("Running")
    (line,) = remote_jobs.described(run)
    assert line == f"JobSet {name} in namespace team: running, 4 of 4 pods run"
    assert remote_jobs.stop(run) is None
    following.pods("Pending")
    assert "had no machines yet, and is cancelled" in remote_jobs.stop(run)
    assert following.api.of("jobsets") == []
    assert remote_jobs.described(run)[0].endswith("deleted from the cluster")


@pytest.mark.slow
def test_a_job_that_was_deleted_is_stopped(following):
    with pytest.raises(errors.RetryableError, match=r"deleted from the cluster. make logs"):
        following.run(following.api.objects.clear)
    assert run_record.read(following.run_folder).status == "stopped"


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
        following.run(overrides=[secret])
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
