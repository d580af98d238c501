"""A run under the real launcher, disturbed from outside and started again as a user would."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from pipeline import errors
from pipeline.cluster import topology
from pipeline.faults import processes
from pipeline.processes import parent_death
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder, Status

_FORK_SERVER = b"pipeline.processes.fork_server"
# In the environment of all its processes: nothing else names the run in each of them.
_OF_RUN = "PIPELINE_DISTURBED_RUN"
_POLL = 0.05  # seconds
_PATIENCE = 300.0  # seconds without any news after which a run is lost


class LaunchedRun:
    """One run: its command, its processes, and what has happened to them.

    `words` are those of the command behind the run and the storage. What it prints is appended to
    `<storage>/<name>.log`.
    """

    def __init__(
        self,
        storage: pathlib.Path,
        name: str,
        words: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: pathlib.Path | None = None,
    ) -> None:
        self.run = RunFolder(str(storage / "runs" / name))
        self.log = storage / f"{name}.log"
        self._command = [
            sys.executable,
            "-m",
            "pipeline.launch",
            f"--run={name}",
            f"--storage={storage}",
            *words,
        ]
        given = os.environ if environment is None else environment
        self._environment = {**given, _OF_RUN: self.run.path}
        self._folder = folder
        self._launcher: subprocess.Popen | None = None
        # Launchers that ended by themselves: their exit codes.
        self.codes: list[int] = []
        self.launches = 0
        self.workers_lost = 0
        self._restarts_seen = 0
        self.top_step = 0
        self.statuses: dict[str, Status] = {}
        # With which the chief has begun, at first or from a checkpoint: its process, and when.
        self._sessions: set[tuple[int, float]] = set()

    @property
    def sessions(self) -> int:
        """How often the chief has begun to train, also without being started again."""
        return len(self._sessions)

    def start(self) -> None:
        """Gives the command, for the first time or again."""
        self.launches += 1
        with open(self.log, "ab") as output:
            self._launcher = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=parent_death.arrange(),  # who disturbs it leaves nothing behind either
            )

    def look(self) -> bool:
        """Notes progress and restarts. Returns false once the launcher has ended."""
        self.statuses = dict(run_folder.read_statuses(self.run))
        for status in self.statuses.values():
            self.top_step = max(self.top_step, status.step or 0)
        chief = self.statuses.get(f"{topology.CHIEF}-0")
        if chief is not None and chief.continued is not None:
            self._sessions.add((chief.pid, chief.continued["time"]))
        restarts = self.restarts
        for restart in restarts[self._restarts_seen :]:
            self.workers_lost += restart.role == topology.WORKER
        self._restarts_seen = len(restarts)
        assert self._launcher is not None
        return self._launcher.poll() is None

    @property
    def restarts(self) -> list[run_record.Restart]:
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
            pids = processes.pids_of(target, self.run)
        processes.send(pids, signal.SIGKILL)
        return bool(pids)

    def _fork_server(self) -> list[int]:
        """Returns the process that all tasks are forked from: theirs is not the launcher."""
        assert self._launcher is not None
        return [
            pid
            for pid in processes.processes_of(self.run.path)
            if processes.parent_of(pid) == self._launcher.pid
            and _FORK_SERVER in processes.command_line(pid)
        ]

    def pause(self, target: str, seconds: float) -> None:
        """Stops a task for a moment, as a machine that swaps or migrates would."""
        pids = processes.pids_of(target, self.run)
        processes.send(pids, signal.SIGSTOP)
        time.sleep(seconds)
        processes.send(pids, signal.SIGCONT)

    def wait(self) -> int:
        """Waits for the launcher, and returns its exit code; negative if a signal ended it."""
        assert self._launcher is not None
        code = self._launcher.wait()
        if code >= 0:
            self.codes.append(code)
        return code

    def read_last_line(self) -> str:
        """Returns the last line it has printed."""
        lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "").strip()

    def close(self) -> None:
        """Ends whatever is left of it."""
        if self._launcher is not None and self._launcher.poll() is None:
            self._launcher.kill()
            self._launcher.wait()
        if self._launcher is not None:
            processes.send(processes.find_survivors(self.run.path), signal.SIGKILL)


def follow(
    run: LaunchedRun,
    act: Callable[[], None],
    wrong: Callable[[str], None],
    *,
    expected: Callable[[int], bool] = lambda code: False,
) -> bool:
    """Follows a run to its end, starting it again as often as its launcher was killed; `act` is
    called at every look.

    `wrong` is called with each problem: processes that outlive the launcher, and exit codes that
    are not `expected`. Returns true if the run was lost.
    """
    try:
        return _follow(run, act, wrong, expected=expected)
    finally:
        run.close()


def _follow(
    run: LaunchedRun,
    act: Callable[[], None],
    wrong: Callable[[str], None],
    *,
    expected: Callable[[int], bool],
) -> bool:
    newest, since = None, time.monotonic()
    while True:
        act()
        if run.look():
            found = {name: _select_news(one) for name, one in run.statuses.items()}
            # Preprocessing has no status.
            news = (run.launches, found or (run.log.stat().st_size if run.log.exists() else 0))
            if news != newest:
                newest, since = news, time.monotonic()
            if time.monotonic() - since > _PATIENCE:
                wrong(f"no progress in {_PATIENCE:g} s")
                return True
            time.sleep(_POLL)
            continue
        code, left = run.wait(), processes.find_survivors(run.run.path)
        if left:
            wrong(f"processes outlive the launcher: {sorted(left)}")
            run.close()
        if code == 0:
            return False
        if code > 0 and not expected(code):
            wrong(f"ended by itself with {code}: {run.read_last_line()}")
            if code != errors.RetryableError.exit_code:
                return True
        run.start()


def _select_news(status: Status) -> tuple[object, ...]:
    return status.pid, status.state, status.step, str(status.work)
