"""A launcher that follows a job at a double of the Kubernetes API, with a real kubectl."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from pipeline.jobs import job as jobs
from pipeline.launchers.k8s import launcher
from pipeline.runs import run_folder, run_record
from tests.pipeline.launchers.k8s import api as apis

RESULT = {"final_step": 7, "metrics": {"accuracy": 1.0}, "exports": {}}


ROLES = ("chief", "worker", "ps", "evaluator")


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


NEEDS_KUBECTL = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine"),
]


def interrupt() -> None:
    raise KeyboardInterrupt


def kinds(api) -> list[str]:
    return sorted(one["kind"] for one in api.objects.values() if one["kind"][0] != "P")
