"""The processes of a rendered JobSet, on hosts of their own, by the rules that Kubernetes follows.

Each pod is a process in a network namespace, with the command and the variables of its container,
`JOB_COMPLETION_INDEX`, and the names of all pods as DNS would give them. A pod that fails is
started again by its Job's `podFailurePolicy` and `backoffLimitPerIndex`, or all are by the JobSet's
failure policy; each start has an address that no pod had before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

from pipeline.jobs import job as jobs
from pipeline.launchers.k8s import launcher, manifest
from pipeline.runs import fatal, run_folder
from tests.e2e import hosts
from tests.faults import injected, witness
from tests.faults.final import Final
from tests.pipeline.launchers.k8s import api as apis
from tests.pipeline.process_help import ROOT, wait_until
from tests.support.sets import matrix

IMPOSSIBLE = hosts.explain_unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(IMPOSSIBLE is not None, reason=str(IMPOSSIBLE)),
]
SUBMISSION = "5f2c41aa00112233"


@dataclasses.dataclass
class Pod:
    name: str  # as DNS knows it
    role: str
    index: int
    spec: dict
    process: subprocess.Popen | None = None
    starts: int = 0


class Cluster:
    """Runs the pods of a JobSet."""

    def __init__(self, documents: list[dict], hosts_made: list, folder: pathlib.Path) -> None:
        config_map, _, self.job_set = documents
        self._free, self._folder = [*hosts_made], folder
        for name, text in config_map["data"].items():
            (folder / name).write_text(text)
        name, subdomain = (
            self.job_set["metadata"]["name"],
            self.job_set["spec"]["network"]["subdomain"],
        )
        self.jobs = {
            one["name"]: one["template"]["spec"] for one in self.job_set["spec"]["replicatedJobs"]
        }
        self._names = f"{name}-{{}}-0-{{}}.{subdomain}"
        self.pods = [
            self._pod(role, i)
            for role, spec in self.jobs.items()
            for i in range(spec["completions"])
        ]
        self._addresses: dict[str, str] = {}
        self._namespaces: list[str] = []

    def _pod(self, role: str, index: int) -> Pod:
        return Pod(
            self._names.format(role, index), role, index, self.jobs[role]["template"]["spec"]
        )

    def resize(self, role: str, completions: int) -> None:
        """Does what the Job controller does for another number of completions and pods: it makes
        those that are missing, and deletes those with the highest indexes, which get SIGTERM."""
        mine = [pod for pod in self.pods if pod.role == role]
        for index in range(len(mine), completions):
            self.pods.append(self._pod(role, index))
            self.start(self.pods[-1])
        for pod in mine[completions:]:
            self.pods.remove(pod)
            pod.process.terminate()
            pod.process.wait(timeout=120)

    def start(self, pod: Pod) -> None:
        """Starts a pod on the next host, under a name that all pods find."""
        namespace, self._addresses[pod.name] = self._free.pop()
        pathlib.Path("/etc/netns", namespace).mkdir(parents=True)
        self._namespaces.append(namespace)
        lines = ["127.0.0.1 localhost", *(f"{a} {n}" for n, a in self._addresses.items())]
        for one in self._namespaces:  # in place: the file is mounted
            pathlib.Path("/etc/netns", one, "hosts").write_text("\n".join([*lines, ""]))
        (container,) = pod.spec["containers"]
        variables = {one["name"]: one["value"] for one in container["env"]}
        variables["JOB_COMPLETION_INDEX"] = str(pod.index)
        arguments = [
            re.sub(r"\$\((\w+)\)", lambda m: variables[m[1]], word).replace(
                "/etc/estimator-pipeline", str(self._folder)
            )
            for word in container["args"]
        ]
        assert container["command"] == ["python"]
        log = (self._folder / f"{pod.role}-{pod.index}-{pod.starts}.out").open("w")
        pod.process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, sys.executable, *arguments],
            cwd=ROOT,
            env={**variables, "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.close()
        pod.starts += 1

    def look(self) -> bool:
        """Does what the controllers do; true once the JobSet has succeeded."""
        wanted = self.job_set["spec"]["successPolicy"]["targetReplicatedJobs"]
        ended = {pod.name: pod.process.poll() for pod in self.pods}
        for pod in self.pods:
            code = ended[pod.name]
            if code:
                self._failed(pod, code)
        return all(ended[pod.name] == 0 for pod in self.pods if pod.role in wanted)

    def _failed(self, pod: Pod, code: int) -> None:
        job = self.jobs[pod.role]
        final = job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]
        assert code not in final, self.outputs()
        if pod.starts <= job.get("backoffLimitPerIndex", 0):
            self.start(pod)
            return
        assert job["backoffLimit"] == 0
        self.end()
        for one in self.pods:
            self.start(one)

    def end(self) -> None:
        """Ends all pods."""
        for pod in self.pods:
            if pod.process is not None:
                pod.process.kill()
                pod.process.wait()

    def remove(self) -> None:
        self.end()
        for namespace in self._namespaces:
            shutil.rmtree(pathlib.Path("/etc/netns", namespace))

    def outputs(self) -> str:
        return "".join(
            f"== {path.name}\n{path.read_text()[-3000:]}" for path in self._folder.glob("*.out")
        )


@contextlib.contextmanager
def started(documents: list[dict], folder: pathlib.Path) -> Iterator[Cluster]:
    """Yields the pods of a JobSet, which have been started, on hosts of their own."""
    with hosts.hosts(8) as made:
        cluster = Cluster(documents, made, folder)
        try:
            for pod in cluster.pods:
                cluster.start(pod)
            yield cluster
        finally:
            cluster.remove()


def created_by_hand(shown: str, folder: pathlib.Path) -> list[dict]:
    """Returns what a double of the API has once kubectl was given what DRY_RUN=1 prints."""
    file = folder / "job.yaml"
    file.write_text(shown)
    with apis.serve() as api:
        apis.write_kubeconfig(folder / "kubeconfig", api.port)
        variables = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder)}
        subprocess.run(["kubectl", "create", "-f", file], env=variables, check=True)
        plurals = ("configmaps", "networkpolicies", "jobsets")
        return [one for plural in plurals for one in api.of(plural)]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")
@pytest.mark.parametrize(
    ("strategy", "starts"),
    [
        matrix("parameter_server", {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}),
        ("multi_worker_mirrored", {"chief": 2, "worker": 2, "evaluator": 2}),
    ],
)
def test_pods_train_and_end_though_one_is_killed(small_records, tmp_path, strategy, starts):
    name = f"k8s-{strategy.replace('_', '-')}"
    wanted = [f"cluster.strategy={strategy}", "k8s.image=i:1", "k8s.pvc=data"]
    wanted += ["train.steps=300", "train.save_steps=100"]
    job = jobs.plan(
        str(small_records.config_path), wanted, run=name, storage_root=str(small_records.storage)
    )
    documents = created_by_hand(launcher.K8sLauncher().show(job).document, tmp_path)
    with started(documents, tmp_path) as cluster:
        worker = next(pod for pod in cluster.pods if pod.role == "worker")

        def is_training() -> bool:
            cluster.look()
            status = run_folder.read_status(job.run, "worker-0")
            return status is not None and (status.step or 0) >= 1

        wait_until(is_training, seconds=300)
        assert worker.starts == 1
        worker.process.kill()
        worker.process.wait()
        wait_until(cluster.look, seconds=400)
        codes = {pod.role: pod.process.wait(timeout=120) for pod in cluster.pods}
        assert codes == dict.fromkeys(starts, 0), cluster.outputs()
        assert {pod.role: pod.starts for pod in cluster.pods} == starts
    result = job.run.read(run_folder.RESULT)
    assert 300 <= result["final_step"] <= 302
    assert (
        json.loads((pathlib.Path(job.run.path) / "status/worker-0.json").read_text())["state"]
        == "done"
    )


@pytest.mark.matrix
def test_a_pod_joins_and_leaves_and_each_record_is_applied_once(
    small_records, tmp_path, monkeypatch
):
    """Its name is that of no pod when the parameter server starts; the witness counts."""
    wanted = [*witness.SETTINGS, "k8s.image=i:1", "k8s.pvc=data", "train.batch_size=32"]
    wanted += ["cluster.strategy=parameter_server", "cluster.workers=1", "cluster.max_workers=2"]
    wanted += ["train.steps=null", "train.epochs=4", "train.save_steps=2000"]
    wanted += [f"train.hooks=[{injected.HOOK}]", "k8s.image_modules=[tests]"]
    job = jobs.plan(
        str(small_records.config_path), wanted, run="k8s-s", storage_root=str(small_records.storage)
    )
    fatal.begin(job.run, SUBMISSION)
    job.run.write("faults.json", {"faults": [], "pace": 0.5})
    documents = manifest.build_documents(job, SUBMISSION)
    for one in documents[-1]["spec"]["replicatedJobs"]:
        (container,) = one["template"]["spec"]["template"]["spec"]["containers"]
        container["env"].append({"name": "PIPELINE_FAULTS", "value": job.run.path})
    with started(documents, tmp_path) as cluster:

        def steps(task):
            cluster.look()
            status = run_folder.read_status(job.run, task)
            return status is not None and status.has_stepped

        wait_until(lambda: steps("worker-0"), seconds=300)
        cluster.resize("worker", 2)
        wait_until(lambda: steps("worker-1"), seconds=300, describe=cluster.outputs)
        cluster.resize("worker", 1)
        assert run_folder.read_status(job.run, "worker-1").state == "stopped"
        job.run.write("pace.json", {"pace": 0.0})
        wait_until(cluster.look, seconds=400)
        assert {pod.role: pod.starts for pod in cluster.pods} == dict.fromkeys(cluster.jobs, 1)
    final = Final(types.SimpleNamespace(path=job.run.path, records=small_records))
    final.check(twice=0)
    assert final.applied.exact
    result = job.run.read(run_folder.RESULT)
    assert result["readers"]["worker-1"] > 0
    assert [row["once"] for row in result["input"][:4]] == [
        row["due"] for row in result["input"][:4]
    ]
