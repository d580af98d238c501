"""The attic. Its service is a folder: `<job>.json` is a job, `machines` lets jobs start."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import ClassVar

from pipeline import errors
from pipeline.jobs.job import Job
from pipeline.launchers import base, checks
from pipeline.launchers.preprocessing import PreprocessingRequest
from pipeline.launchers.remote import Phase, RemoteLauncher, State
from pipeline.runs import run_folder
from tests.pipeline.launchers.attic.settings import Attic

PHASES = {"queued": Phase.WAITING, "running": Phase.RUNNING}


def service() -> pathlib.Path:
    return pathlib.Path(os.environ["ATTIC"])


def state_file(name: str) -> pathlib.Path:
    return service() / f"{name.removeprefix('attic/')}.json"


@dataclasses.dataclass(frozen=True)
class AtticLauncher(RemoteLauncher):
    poll: float = 0.05
    service: ClassVar[str] = "the attic"

    def prepare(self, job: Job) -> Job:
        return job

    def submit(self, job: Job, submission: str) -> str:
        name = f"attic/{Attic.of(job.config).shelf}-{submission}"
        state_file(name).write_text(json.dumps({"state": "queued", "run": job.run.path}))
        subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.launchers.attic.machine", state_file(name)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return name

    def find(self, job: Job) -> str | None:
        return None

    def look(self, name: str) -> State:
        word = json.loads(state_file(name).read_text())["state"]
        return State(PHASES.get(word, Phase.ENDED), word)

    def cancel(self, name: str) -> None:
        state_file(name).write_text('{"state": "cancelled"}')

    def failure(self, job: Job, name: str, state: State) -> errors.PipelineError | None:
        if job.run.read(run_folder.RESULT) is not None:
            return None
        return errors.RetryableError(f"the job is {state.word}")

    def show(self, job: Job) -> base.Shown:
        return base.Shown(f"shelf {Attic.of(job.config).shelf}", "would carry it up")

    def checks(self, storage_root: str) -> Iterator[checks.Finding]:
        yield checks.Finding("the stairs hold")


def preprocess(request: PreprocessingRequest) -> None:
    print("would make records with", *request.arguments)
