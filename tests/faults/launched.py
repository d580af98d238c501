"""A run under the real launcher, killed from outside and started again as a user would."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from pipeline.cluster import topology
from pipeline.processes import parent_death
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from tests.faults import injected, verdict
from tests.pipeline.process_help import ROOT, child_environment

_FORK_SERVER = b"pipeline.processes.fork_server"


class LaunchedRun:
    """One run: its command, its processes, and what has happened to them."""

    def __init__(self, storage: pathlib.Path, name: str, config_path: str, settings: list[str]):
        self.run = RunFolder(str(storage / "runs" / name))
        self._log = storage / f"{name}.log"
        self._command = [
            *(sys.executable, "-m", "pipeline.launch", f"--run={name}"),
            *(f"--config={config_path}", f"--storage={storage}"),
            *(f"--set={setting}" for setting in settings),
        ]
        self._environment = {**child_environment(), "PIPELINE_FAULTS": self.run.path}
        self._launcher: subprocess.Popen | None = None
        # Launchers that ended by themselves: their exit codes.
        self.codes: list[int] = []
        self.launches = 0
        self.workers_lost = 0
        self._restarts_seen = 0
        self.top_step = 0

    def set_faults(self, faults: list[dict], pace: float) -> None:
        """Sets what `injected.Faults` does in this run."""
        pathlib.Path(self.run.path).mkdir(parents=True, exist_ok=True)
        self.run.write("faults.json", {"faults": faults, "pace": pace})

    def set_pace(self, pace: float) -> None:
        """Changes the pause after each step, in seconds, while the run goes on."""
        self.run.write("pace.json", {"pace": pace})

    def start(self) -> None:
        """Gives the command, for the first time or again."""
        self.launches += 1
        with open(self._log, "ab") as output:
            self._launcher = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=parent_death.arrange(),  # a soak that is killed leaves nothing behind
            )

    def look(self) -> bool:
        """Notes progress and restarts. Returns false once the launcher has ended."""
        for status in run_folder.read_statuses(self.run).values():
            self.top_step = max(self.top_step, status.step or 0)
        restarts = self.restarts
        for restart in restarts[self._restarts_seen :]:
            self.workers_lost += restart.role == topology.WORKER
        self._restarts_seen = len(restarts)
        assert self._launcher is not None
        return self._launcher.poll() is None

    @property
    def restarts(self) -> list:
        """What the launcher has started again, as `run.json` has it."""
        record = run_record.read(self.run)
        return record.restarts if record else []

    def kill(self, target: str) -> bool:
        """Kills a task, `all` of them, the `launcher` or its `fork-server`; false if not all of
        them live."""
        if target == "launcher":
            assert self._launcher is not None
            pids = [self._launcher.pid] if self._launcher.poll() is None else []
        elif target == "fork-server":
            pids = self._fork_server()
        else:
            pids = injected.pids_of(target, self.run)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)

    def _fork_server(self) -> list[int]:
        """Returns the process that all tasks are forked from: theirs is not the launcher."""
        assert self._launcher is not None
        return [
            pid
            for pid in verdict.processes_of(self.run.path)
            if verdict.parent_of(pid) == self._launcher.pid
            and _FORK_SERVER in verdict.command_line(pid)
        ]

    def pause(self, target: str, seconds: float) -> None:
        """Stops a task for a moment, as a machine that swaps or migrates would."""
        for pid in injected.pids_of(target, self.run):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(seconds)
                os.kill(pid, signal.SIGCONT)

    def ended(self) -> int:
        """Returns how the launcher ended; by itself if not negative."""
        assert self._launcher is not None
        code = self._launcher.wait()
        if code >= 0:
            self.codes.append(code)
        return code

    def close(self) -> None:
        """Ends whatever is left of it."""
        if self._launcher is not None and self._launcher.poll() is None:
            self._launcher.kill()
            self._launcher.wait()
        for pid in verdict.left(self.run.path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
