"""Kubernetes: jobs are JobSets, plain Jobs or a TFJob, submitted by kubectl.

Their processes are those of `trainer.task` in the image of the `Dockerfile`. What the cluster
restarts by itself is in the manifest: a job need not be followed.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator
from typing import Any, ClassVar

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.jobs import table_memory
from pipeline.jobs.job import Job
from pipeline.jobs.table_memory import Room
from pipeline.launchers import base, checks, image, remote_records
from pipeline.launchers.k8s import kubectl, manifest, pod, progress
from pipeline.launchers.k8s.kubectl import ClusterNamespace
from pipeline.launchers.k8s.progress import JobProgress, Problem
from pipeline.launchers.k8s.settings import K8s, amount
from pipeline.launchers.remote import Phase, RemoteLauncher, State, find_final_error
from pipeline.runs import run_folder, run_record, scalings
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord

_LEGACY = "# For the Training Operator v1, a legacy one: its successor has no TFJob.\n"
_TITLES = {"jobset": "JobSet", "job": "Jobs", "tfjob": "TFJob"}


@dataclasses.dataclass(frozen=True)
class Name:
    """Where a job is: `k8s/<namespace>/<kind>/<name>/<context>` in `run.json`. The context comes
    last, as it may have slashes."""

    cluster: ClusterNamespace
    kind: str
    name: str

    def __str__(self) -> str:
        where = (self.cluster.namespace, self.kind, self.name, self.cluster.context)
        return "/".join(("k8s", *where))

    @classmethod
    def of(cls, text: str) -> Name:
        """Reads a name that was written to `run.json`."""
        _, namespace, kind, name, context = text.split("/", 4)
        return cls(ClusterNamespace(context, namespace), kind, name)


@dataclasses.dataclass(frozen=True)
class K8sLauncher(RemoteLauncher):
    """A launcher for Kubernetes."""

    poll: float = 5.0
    service: ClassVar[str] = "Kubernetes"
    scales: ClassVar[bool] = True

    def prepare(self, job: Job) -> Job:
        """Checks config, cluster and records; returns the job with context, namespace and kind as
        they are, and with the build that it asks for."""
        pod.check(job)
        asked = K8s.of(job.config)
        cluster = kubectl.cluster_of(asked.context, asked.namespace)
        kind = _choose_kind(cluster, asked)
        manifest.check_kind(pod.Rendering(job, "0" * 16), kind)
        _check_needs(cluster, asked)
        known = {"context": cluster.context, "namespace": cluster.namespace, "kind": kind}
        config = job.config.model_copy(update={"k8s": asked.model_copy(update=known)})
        return remote_records.attach_records(dataclasses.replace(job, config=config))

    def room(self, job: Job) -> Room | None:
        """Returns the memory of a pod."""
        role = table_memory.holder(job.config.cluster)
        given = K8s.of(job.config).get_resources(role).memory
        return Room(amount(given), f"k8s.resources.{role}.memory is {given}")

    def begin(self, job: Job, record: RunRecord) -> Job:
        """Pins the run to its records."""
        return remote_records.pin(job, record)

    def submit(self, job: Job, submission: str) -> str:
        """Creates the objects, after the cluster has checked all of them. If one is refused even
        so, none is left."""
        name = _name(job, submission)
        documents = manifest.build_documents(job, submission)
        name.cluster.create(documents, dry_run=True)
        try:
            created = name.cluster.create(documents, dry_run=False)
        except errors.PipelineError:
            _remove(name)
            raise
        _set_owner(name.cluster, created)
        return str(name)

    def find(self, job: Job) -> str | None:
        """Finds the job by the label of its run folder."""
        settings = K8s.of(job.config)
        cluster = ClusterNamespace(str(settings.context), str(settings.namespace))
        kind = str(settings.kind)
        selector = f"{pod.FOLDER}={pod.folder_label(job)}"
        found = cluster.items(manifest.RESOURCES[kind], selector)
        for name in dict.fromkeys(one["metadata"]["labels"][pod.SET] for one in found):
            candidate = str(Name(cluster, kind, name))
            if self.look(candidate).phase is not Phase.ENDED:
                return candidate
        return None

    def look(self, name: str) -> State:
        """Asks the cluster for the job's objects and pods."""
        found = self._read_progress(Name.of(name))
        gone = found.word == "deleted"
        return State(found.phase, found.word, found.text, was_cancelled=gone, answer=found)

    def _read_progress(self, name: Name) -> JobProgress:
        resource, selector = manifest.RESOURCES[name.kind], f"{pod.SET}={name.name}"
        objects = name.cluster.items(f"{resource},pods", selector)
        pods = [one for one in objects if one["kind"] == "Pod"]
        workloads = [one for one in objects if one["kind"] != "Pod"]
        if not workloads:
            return JobProgress(Phase.ENDED, "deleted", "deleted from the cluster")
        found = progress.read_progress(name.kind, workloads, pods, now=self.clock())
        if pods or found.phase is Phase.ENDED:
            return found
        refused = _find_refused_pods(name)
        if refused is None:
            return found
        return dataclasses.replace(found, text=f"{found.text}; {refused}", problems=(refused,))

    def has_ended(self, name: str) -> bool:
        """True if the cluster says so; logs may be read on machines without kubectl."""
        try:
            return self.look(name).phase is Phase.ENDED
        except errors.PipelineError:
            return False

    def find_blocker(self, job: Job, state: State) -> errors.PipelineError | None:
        """Returns why a pod will never start."""
        final = [problem for problem in state.answer.problems if problem.is_final]
        if not final:
            return None
        return errors.UsageError(f"{final[0]}. The job is cancelled; run the same command again")

    def cancel(self, name: str) -> None:
        """Deletes the job: its processes get SIGTERM first."""
        _remove(Name.of(name))

    def resize(self, run: RunFolder, name: str, workers: int) -> None:
        """Changes the Job of the workers: an Indexed Job may have another number of pods while it
        runs, if both of its numbers stay equal (Kubernetes 1.27 or later, "Elastic Indexed Jobs").
        """
        known = Name.of(name)
        if known.kind == "tfjob" or not _has_workers(run):
            raise errors.UsageError(
                f"run {run.name!r}: {self.title(name)} has no Job of workers that could grow; make "
                f"stop, then make train CLUSTER=k8s with the same RUN= and WORKERS={workers} "
                "continues"
            )
        numbers = {"spec": {"completions": workers, "parallelism": workers}}
        job = manifest.job_name(known.name, known.kind, topology.WORKER)
        known.cluster.ask("patch", f"job/{job}", "--type=merge", f"--patch={json.dumps(numbers)}")
        record = run_record.read(run)
        if record is not None:
            steps = [one.step or 0 for one in run_folder.read_statuses(run).values()]
            step = max(steps, default=None)
            scalings.note(record, workers, step=step, now=self.clock())
            run_record.write(run, record)

    def save_and_end(self, run: RunFolder, name: str) -> None:
        """Deletes the job, which lasts until its pods have saved."""
        _remove(Name.of(name), cascade="foreground")

    def failure(self, job: Job, name: str, state: State) -> errors.PipelineError | None:
        """Returns the error of the process that failed, or else of the cluster."""
        if state.word == "succeeded":
            if job.run.read(run_folder.RESULT) is not None:
                return None
            return errors.PipelineError(
                f"{self.title(name)}: ended well, but left no {run_folder.RESULT} in "
                f"{job.run.path!r}. Check that pods and this machine see the same STORAGE"
            )
        if state.word == "failed" and Name.of(name).kind != "jobset":
            self.cancel(name)  # others of its pods may still run
        return find_final_error(job) or _explain_failure(self.title(name), state)

    def title(self, name: str) -> str:
        """Returns kind and name, as kubectl takes them."""
        known = Name.of(name)
        return f"{_TITLES[known.kind]} {known.name} in namespace {known.cluster.namespace}"

    def headline(self, name: str) -> str:
        """Returns the same."""
        return self.title(name)

    def show(self, job: Job) -> base.Shown:
        """Returns the objects, of a submission of their own: they may be submitted as shown."""
        kind = K8s.of(job.config).kind
        submission = secrets.token_hex(8)
        documents = manifest.build_documents(job, submission)
        text = manifest.dump_yaml(documents)
        without = "" if kind else ". Without JobSet in the cluster it would be plain Jobs"
        notes = [f"would give the objects above to kubectl create{without}", image.describe()]
        selector = f"{pod.SET}={documents[0]['metadata']['labels'][pod.SET]}"
        notes.append(
            "submitted by hand, its other objects stay after it: kubectl delete "
            f"{','.join(manifest.OTHERS)} --selector={selector}"
        )
        notes += [f"warning: {line}" for line in config_file.warnings(job.config)]
        return base.Shown((_LEGACY if kind == "tfjob" else "") + text.rstrip(), "\n\n".join(notes))

    def checks(self, storage_root: str) -> Iterator[checks.Finding]:
        """Yields, besides the usual, whether kubectl is here, its cluster answers, and may be
        used."""
        yield from super().checks(storage_root)
        try:
            cluster = kubectl.cluster_of(None, None)
            has_jobsets = cluster.has_kind(manifest.RESOURCES["jobset"])
        except errors.PipelineError as error:
            yield checks.Finding("the Kubernetes cluster cannot be used", str(error))
            return
        yield checks.Finding(f"the cluster of kubectl's context {cluster.context!r} answers")
        yield checks.Finding(
            "the cluster has JobSet" if has_jobsets else "the cluster has no JobSet: plain Jobs"
        )
        yield checks.attempt(
            lambda: _check_may_create(cluster),
            f"you may create jobs in namespace {cluster.namespace!r}",
        )


def _has_workers(run: RunFolder) -> bool:
    return topology.role_counts(run.read_config().cluster)[topology.WORKER] > 0


def _check_may_create(cluster: ClusterNamespace) -> None:
    if cluster.ask("auth", "can-i", "create", "jobs.batch").strip() != "yes":
        raise errors.UsageError(f"you may not create jobs in namespace {cluster.namespace!r}")


def _name(job: Job, submission: str) -> Name:
    settings = K8s.of(job.config)
    cluster = ClusterNamespace(str(settings.context), str(settings.namespace))
    return Name(cluster, str(settings.kind), pod.Rendering(job, submission).name)


def _choose_kind(cluster: ClusterNamespace, asked: K8s) -> str:
    """Returns the kind of the job. Raises `UsageError` for one that the cluster does not have."""
    if asked.kind == "job":
        return "job"
    kind = asked.kind or "jobset"
    if cluster.has_kind(manifest.RESOURCES[kind]):
        return kind
    if asked.kind is None:
        return "job"
    other = ", or leave out k8s.kind" if kind == "jobset" else ", or use k8s.kind=jobset"
    raise errors.UsageError(
        f"CLUSTER=k8s: the cluster of context {cluster.context!r} has no {_TITLES[kind]}. Have it "
        f"installed{other}"
    )


def _check_needs(cluster: ClusterNamespace, asked: K8s) -> None:
    """Raises `UsageError` for the first object that pods need and the namespace does not have. One
    that the user may not read is left to the cluster."""
    secret = dict.fromkeys(asked.env_from, "k8s.env_from")
    secret |= dict.fromkeys(asked.image_pull_secrets, "k8s.image_pull_secrets")
    needed = [("persistentvolumeclaim", asked.pvc, "k8s.pvc")]
    needed += [("serviceaccount", asked.service_account, "k8s.service_account")]
    needed += [("secret", name, key) for name, key in secret.items()]
    for resource, name, key in needed:
        if name is None:
            continue
        try:
            cluster.ask("get", resource, name, "--output=name")
        except kubectl.ForbiddenError:
            continue
        except kubectl.NotThereError:
            raise errors.UsageError(
                f"CLUSTER=k8s: {key}: namespace {cluster.namespace!r} has no {resource} {name!r}. "
                "Create it, or correct the name or k8s.namespace"
            ) from None


def _set_owner(cluster: ClusterNamespace, created: list[dict[str, Any]]) -> None:
    """Has the cluster delete the other objects together with what runs the pods."""
    kinds = ("JobSet", "Job", "TFJob")
    owner = [one for one in created if one["kind"] in kinds][-1]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    patch = json.dumps({"metadata": {"ownerReferences": [reference]}})
    for one in created:
        if one["kind"] not in kinds:
            what = f"{one['kind'].lower()}/{one['metadata']['name']}"
            try:
                cluster.ask("patch", what, "--type=merge", f"--patch={patch}")
            except errors.PipelineError as error:
                print(f"note: {what} stays after the job: {error}", flush=True)


def _remove(name: Name, *, cascade: str = "background") -> None:
    """Deletes all objects of a job; those that are gone are no error. In the `foreground` what runs
    pods is there until they have ended."""
    resources = ",".join((manifest.RESOURCES[name.kind], *manifest.OTHERS))
    selector = f"--selector={pod.SET}={name.name}"
    name.cluster.ask(
        "delete", resources, selector, "--wait=false", f"--cascade={cascade}", "--ignore-not-found"
    )


def _find_refused_pods(name: Name) -> Problem | None:
    """Returns why the cluster does not create a job's pods, if it says so."""
    try:
        events = name.cluster.get("events", "--field-selector=reason=FailedCreate")["items"]
    except (errors.UsageError, errors.RetryableError):
        return None
    said = [
        str(one.get("message", "")).rstrip(".")
        for one in events
        if str(one.get("involvedObject", {}).get("name", "")).startswith(name.name)
    ]
    if not said:
        return None
    fix = "Change what it names in k8s, or ask the cluster's administrator"
    return Problem(f"its pods cannot be created: {said[-1]}", fix, is_final=False)


def _explain_failure(title: str, state: State) -> errors.PipelineError:
    """Returns what the cluster and the ends of the processes say of a job that has failed."""
    found: JobProgress = state.answer
    for task, code, reason, said in found.exits:
        if reason == "OOMKilled":
            return errors.UsageError(
                f"{task} ran out of memory. Give it more: "
                f"k8s.resources.{task.rpartition('-')[0] or task}.memory"
            )
        if code in errors.FINAL_CODES:
            line = next(iter(reversed(said.strip().splitlines())), "no reason given")
            return errors.build_from_exit_code(code, f"{task}: {line.removeprefix('error: ')}")
    return errors.RetryableError(
        f"{title}: {state}. make logs shows more; the same command continues from the last "
        "checkpoint"
    )
