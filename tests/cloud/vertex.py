"""Vertex AI on this machine: runs a rendered CustomJob, each replica a process.

Each is told its place as the documentation of the service says, in `CLUSTER_SPEC` and `TF_CONFIG`
(which does not list the evaluator). One that ends with another code than 0 is started again, up to
five times, and then the whole job, up to three times; with `restartJobOnWorkerRestart` a restart is
one of all. When the primary replica, pool 0, ends with 0, the job has succeeded, and the others are
shut down, the evaluator too:
https://cloud.google.com/vertex-ai/docs/training/understanding-training-service

That page says that "common errors" are permanent, and its list can be read in two ways: it may have
every exit code that a program chose, so that only crashes are restarted. A job must end well under
both readings: `only_crashes` is the stricter one.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from pipeline.supervision.ports import Reservation

_ROLES = ("chief", "worker", "ps", "evaluator")
RESTARTS, JOB_RESTARTS = 5, 3
# Of a crash: SIGABRT and SIGSEGV, as a shell counts them.
_CRASHES = (128 + signal.SIGABRT, 128 + signal.SIGSEGV)
_GRACE = 2.0  # seconds that replicas have to end when the job is over


@dataclasses.dataclass
class Replica:
    """One process of one pool. `codes` are those that its attempts in this job have ended with."""

    pool: int
    index: int
    specification: Mapping[str, Any]
    process: subprocess.Popen | None = None
    codes: list[int] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """As our logs call it."""
        return f"{_ROLES[self.pool]}-{self.index}"


class Vertex:
    """One job. `history` has the codes of all that ended, in order, by name."""

    def __init__(
        self,
        job: Mapping[str, Any],
        environment: Mapping[str, str],
        folder: pathlib.Path,
        work: pathlib.Path,
        *,
        only_crashes: bool = False,
    ) -> None:
        self._job, self._only_crashes = job["jobSpec"], only_crashes
        self._environment, self._folder, self._work = environment, folder, work
        self.history: list[tuple[str, int]] = []
        self.replicas: list[Replica] = []
        # Those that still ran when the job was over.
        self.shut_down: list[str] = []
        self.job_starts = 0
        self._ports: Reservation | None = None
        self._cluster: dict[str, list[str]] = {}

    def run(self, on_poll: Any = None) -> str:
        """Runs the job to its end and returns its state, `JOB_STATE_SUCCEEDED` or `…_FAILED`.

        `on_poll` is called now and then with this object, to do harm.
        """
        try:
            for _ in range(1 + JOB_RESTARTS):
                self._start_all()
                ended = self._follow(on_poll)
                if ended is not None:
                    self._shut_down()
                    return f"JOB_STATE_{ended}"
                self._kill_all()
            return "JOB_STATE_FAILED"
        finally:
            self._kill_all()

    def replica(self, name: str) -> Replica:
        """Returns a replica by the name that logs have."""
        return next(replica for replica in self.replicas if replica.name == name)

    def log(self, name: str) -> str:
        """Returns what a replica has put out, over all its attempts."""
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _start_all(self) -> None:
        self.job_starts += 1
        self.replicas = [
            Replica(pool, index, specification)
            for pool, specification in enumerate(self._job["workerPoolSpecs"])
            for index in range(specification.get("replicaCount", 0))
        ]
        if self._ports is not None:
            self._ports.release()
        self._ports = Reservation(len(self.replicas))
        self._cluster = {}
        for replica, address in zip(self.replicas, self._ports.addresses, strict=True):
            self._cluster.setdefault(f"workerpool{replica.pool}", []).append(address)
        for replica in self.replicas:
            self._start(replica)

    def _start(self, replica: Replica) -> None:
        container = replica.specification["containerSpec"]
        own = {variable["name"]: variable["value"] for variable in container["env"]}
        with open(self._folder / f"{replica.name}.log", "ab") as log:
            replica.process = subprocess.Popen(
                [*(_program(word) for word in container["command"]), *container["args"]],
                cwd=self._work,
                env={**self._environment, **self._place(replica), **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _place(self, replica: Replica) -> dict[str, str]:
        task = {"type": f"workerpool{replica.pool}", "index": replica.index, "trial": ""}
        cluster_spec = {"cluster": self._cluster, "environment": "cloud", "task": task}
        named = {_ROLES[int(pool[-1])]: hosts for pool, hosts in self._cluster.items()}
        tf_config = {
            "cluster": {role: hosts for role, hosts in named.items() if role != "evaluator"},
            "environment": "cloud",
            "task": {"type": _ROLES[replica.pool], "index": replica.index},
        }
        output = self._job["baseOutputDirectory"]["outputUriPrefix"]
        return {
            "CLUSTER_SPEC": json.dumps(cluster_spec),
            "TF_CONFIG": json.dumps(tf_config),
            "CLOUD_ML_JOB_ID": "1234567890",
            "AIP_MODEL_DIR": f"{output}/model/",
            "AIP_TENSORBOARD_LOG_DIR": f"{output}/logs/",
        }

    def _follow(self, on_poll: Any) -> str | None:
        """Returns how the job has ended, `None` if it must be started again."""
        together = self._job["scheduling"]["restartJobOnWorkerRestart"]
        while True:
            if on_poll is not None:
                on_poll(self)
            for replica in self.replicas:
                code = replica.process.poll()
                if code is None or (replica.codes and replica.codes[-1] == 0):
                    continue
                replica.codes.append(code)
                self.history.append((replica.name, code))
                if code == 0 and replica.pool == 0:
                    return "SUCCEEDED"
                if code == 0:
                    continue
                if self._only_crashes and (128 - code if code < 0 else code) not in _CRASHES:
                    return "FAILED"
                if sum(c != 0 for c in replica.codes) > RESTARTS or together:
                    return None
                self._start(replica)
            time.sleep(0.1)

    def _shut_down(self) -> None:
        """Tells what still runs to end, as the service does when the job is over."""
        running = [r for r in self.replicas if r.process is not None and r.process.poll() is None]
        for replica in running:
            os.killpg(replica.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline and any(r.process.poll() is None for r in running):
            time.sleep(0.1)
        self._kill_all()
        self.shut_down = [replica.name for replica in running]

    def _kill_all(self) -> None:
        for replica in self.replicas:
            if replica.process is not None and replica.process.poll() is None:
                os.killpg(replica.process.pid, signal.SIGKILL)
                replica.process.wait()


def _program(word: str) -> str:
    """The image has one Python; here it is the one of the tests."""
    return sys.executable if word == "python" else word
