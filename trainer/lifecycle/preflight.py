"""Before a cluster starts: does every role see the same run folder, config and code?

Each role writes a random number into the run folder and waits until the chief has written it back.
So both have read what the other wrote: one folder, not two of the same name
(docs/tensorflow-pitfalls.md#parts-written-by-servers). With it the chief sends the hash of its
config and its code version, which each role compares with its own, and how many replicas of the
model it has, as those that train must have, too. The chief removes what it has answered, so that it
has nothing to read again.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

from pipeline import config, errors, storage, versions
from pipeline.cluster import topology
from pipeline.cluster.tolerance import Tolerance
from pipeline.jobs import job as jobs
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

_FOLDER = "preflight"
# Seconds between looks at the folder. Those of a hundred roles that wait are many, so each role
# looks less often the longer it waits.
_ANSWER, _REMOTE_ANSWER = 0.2, 5.0
_FIRST, _LAST, _GROWTH = 0.1, 1.0, 1.3
# Once training has ended nothing answers; a chief that continues the run has answered by then.
_PATIENCE_AFTER_TRAINING = 20.0
_QUIET = 2.0  # seconds before a role says that it waits
# What the chief leaves for those that start after it has ended.
_CHIEF = f"{_FOLDER}/chief.json"
_REPLICAS = "replicas"
# Keys of `data` that may differ between hosts.
_OF_HOST = ("inputs", "download")


def identify(job: config.Config) -> dict[str, str]:
    """Returns what must be equal in all processes of a run.

    Not where the raw data lies: hosts may have that and the config in other places, and training
    does not read it. Nor replicas, which only those that train have.
    """
    values = job.model_dump(mode="json")
    for key in _OF_HOST:
        del values["data"][key]
    # Each counts its GPUs, which servers and the evaluator may do without.
    del values["cluster"]["replicas"]
    return {"config": config.digest(values)[:12], "code": versions.code_version()}


class PreflightServer:
    """The chief's side: answers every role, whenever it starts, for as long as the chief lives."""

    def __init__(self, run: RunFolder, job: config.Config) -> None:
        self._run = run
        self._identity = {**identify(job), _REPLICAS: job.cluster.replicas or 1}
        self._answering = Tolerance("answering the roles that start")

    def start(self) -> None:
        """Answers in the background; the thread dies with the process."""
        self._run.write(_CHIEF, self._identity)
        threading.Thread(target=self._answer_all, name="preflight", daemon=True).start()

    def _answer_all(self) -> None:
        while True:
            with self._answering.survive():
                self.answer()
            time.sleep(_REMOTE_ANSWER if storage.is_remote(self._run.path) else _ANSWER)

    def answer(self) -> None:
        """Writes back what has been asked and not been answered yet. What fails is asked again at
        the next look; all else is answered first."""
        names = storage.listdir(storage.join(self._run.path, _FOLDER))
        failures = []
        for name in (name for name in names if name.endswith(".ask.json")):
            try:
                self._answer(name)
            except (errors.PipelineError, OSError) as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _answer(self, name: str) -> None:
        asked = self._run.read(f"{_FOLDER}/{name}")
        if asked is None:
            return
        answer = {**asked, **self._identity}
        self._run.write(f"{_FOLDER}/{name.replace('.ask.', '.answer.')}", answer)
        self._run.remove(f"{_FOLDER}/{name}")


def check(
    run: RunFolder,
    job: config.Config,
    task: topology.Task,
    *,
    patience: float,
    after_training: float = _PATIENCE_AFTER_TRAINING,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """The other roles' side. Raises `UsageError` naming what differs from the chief, and
    `RetryableError` if the chief does not answer in `patience` seconds. An evaluator may come when
    the chief has ended: after `after_training` seconds it goes by what that has left."""
    nonce = secrets.token_hex(8)
    run.write(f"{_FOLDER}/{task.name}.ask.json", {"nonce": nonce})
    began, said, pause = clock(), False, _FIRST
    looking = Tolerance(f"{task.name}: looking for the chief's answer")
    while True:
        answer = None
        with looking.survive():
            answer = run.read(f"{_FOLDER}/{task.name}.answer.json")
        if answer is not None and answer.get("nonce") == nonce:
            break
        waited = clock() - began
        if not said and waited >= _QUIET:
            said = True
            print(f"{task.name}: waiting up to {patience:g} s for the chief", flush=True)
        if waited >= after_training and task.job_name == topology.EVALUATOR:
            answer = run.read(_CHIEF)
            if answer is not None and run.read(run_folder.TRAINING_DONE) is not None:
                break
        if waited >= patience:
            raise errors.RetryableError(
                f"{task.name}: the chief has not answered in {run.path!r} for {patience:g} s. "
                "Start it, or check that its host sees the same folder under that path"
            )
        sleep(pause)
        pause = min(_LAST, pause * _GROWTH)
    for what, own in identify(job).items():
        if answer[what] != own:
            raise errors.UsageError(
                f"{task.name}: its {what} is {own}, the chief's is {answer[what]}"
                f"{_describe_differences(run, job) if what == 'config' else ''}. Start every role "
                f"with the same {what}"
            )
    replicas = job.cluster.replicas or 1
    if task.job_name in topology.TRAINING_ROLES and replicas != answer[_REPLICAS]:
        raise errors.UsageError(
            f"{task.name}: it has {replicas} of the model's replicas, the chief "
            f"{answer[_REPLICAS]}: each process that trains needs as many GPUs as the chief sees "
            "(CUDA_VISIBLE_DEVICES), or the same cluster.replicas"
        )


def _describe_differences(run: RunFolder, job: config.Config) -> str:
    """Says in which keys the chief's config, as it has written it, differs from our own."""
    if not storage.exists(run.config_path):
        return ""
    known = tuple(f"data.{key}." for key in _OF_HOST)
    lines = [n for n in jobs.differences(run.read_config(), job) if not n.startswith(known)]
    return f" ({'; '.join(lines)})" if lines else ""
