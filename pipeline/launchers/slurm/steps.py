"""Job steps: programs that Slurm starts on the nodes of an allocation."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import platform
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from pipeline import errors, versions
from pipeline.launchers import program
from pipeline.launchers.slurm import check, commands, ranks, step_end
from pipeline.processes import environment
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

MODULE = "pipeline.launchers.slurm.main"
_TRIES = 20
# By default tasks get no variables in a job that was submitted with --export=NONE.
_VARIABLES = "--export=ALL"
# How often nodes are looked at while they or the controller do not answer, and seconds in between.
_LOOKS, _PAUSE = 30, 10.0
# Seconds between two looks at whether a check has ended.
_POLL = 1.0
# Errors of Python, and those that mean that a program is not there.
_RAISED = re.compile(r"^\w+(?:Error|Exception): .*$", re.M)
_MISSING = re.compile(r"execve\(\)|\b(?:ModuleNotFound|Import)Error\b|can't open file")
_ADDRESS = re.compile(r"\bNodeName=(\S+).*?\bNodeAddr=(\S+)")


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of an allocation: `address` is what others reach it by."""

    name: str
    address: str


def nodes_of(variables: Mapping[str, str]) -> list[Node]:
    """Returns the nodes of the job whose variables are given, in Slurm's order."""
    listed = variables["SLURM_JOB_NODELIST"]
    names = commands.ask("scontrol", "show", "hostnames", listed).split()
    said = commands.ask("scontrol", "--oneliner", "show", "node", listed)
    addresses = dict(_ADDRESS.findall(said))
    return [Node(name, addresses.get(name, name)) for name in names]


def processors(variables: Mapping[str, str]) -> int:
    """Returns how many processors of this node the job whose variables are given may use. Not every
    cluster binds it to them."""
    bound = environment.processors()
    return min(bound, int(variables.get("SLURM_CPUS_ON_NODE", bound)))


@dataclasses.dataclass(frozen=True)
class Allocation:
    """What Slurm has given to the job of a run, with `counts` processes by role."""

    run: RunFolder
    storage_root: str
    nodes: list[Node]
    counts: Mapping[str, int]
    job: str
    cpus: int = 1
    # How many workers may join from jobs of their own.
    places: int = 0
    # Seconds between two actions that end a check that hangs.
    action_seconds: float = step_end.MOST

    @property
    def processes(self) -> int:
        """How many tasks a training step has."""
        return sum(self.counts.values())

    def ports(
        self,
        attempt: int,
        *,
        lowest: int,
        highest: int,
        tries: int = _TRIES,
        wait: Callable[[float], object] = time.sleep,
    ) -> int:
        """Returns the first of the ports of a training step, which are free on all nodes.

        `wait` is called with the seconds between two looks at nodes that do not answer. Raises
        `UsageError` naming a node that does not see the run folder, has another version of the code
        or of Python, or cannot run it at all; `RetryableError` without free ports or an answer.
        """
        for number in range(attempt * tries, (attempt + 1) * tries):
            first = ranks.choose_first_port(
                int(self.job), number, self.processes + self.places, lowest=lowest, highest=highest
            )
            found = self._look(first, wait)
            taken = [f"{one['node']}:{port}" for one in found for port in one["taken"]]
            if not taken:
                return first
            print(f"ports from {first}: {', '.join(taken)} taken; trying others", flush=True)
        names = ", ".join(node.name for node in self.nodes)
        raise errors.RetryableError(
            f"no {self.processes + self.places} free ports in a row on {names}, tried {tries} "
            "times; change slurm.first_port and slurm.last_port"
        )

    def _look(self, first: int, wait: Callable[[float], object]) -> list[dict[str, Any]]:
        """Returns what all nodes are like; the controller may be away for a while."""
        before, run = "", functools.partial(self._run, wait=wait)
        for _ in range(_LOOKS):
            nonce = secrets.token_hex(8)
            self.run.write(check.SEEN, {"nonce": nonce})
            done = run(self._check_command(first))
            found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            silent = sorted({node.name for node in self.nodes} - {one["node"] for one in found})
            if not silent:
                self._check_nodes(found, nonce)
                return found
            said = f"node {', '.join(silent)}: {_cause(done.stderr) or 'it printed nothing'}"
            _check_programs(silent, done, said, run=run)
            if said != before:
                print(f"{said}; waiting", flush=True)
            before = said
            wait(_PAUSE)
        raise errors.RetryableError(f"{said}. {program.AGAIN}")

    def _check_command(self, first: int) -> list[str]:
        count = str(len(self.nodes))
        return [
            "srun",
            f"--ntasks={count}",
            f"--nodes={count}",
            "--ntasks-per-node=1",
            "--cpus-per-task=1",
            _VARIABLES,
            "--input=none",
            "--kill-on-bad-exit=0",
            *self._part("check"),
            f"--port={first}",
            f"--ports={self.processes + self.places}",
        ]

    def _run(
        self, command: list[str], *, wait: Callable[[float], object]
    ) -> subprocess.CompletedProcess[str]:
        """Returns how a short step has ended, and what it printed. One whose srun waits for a step
        that Slurm does not list is ended."""
        with (
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            start_step(command, stdout=out, stderr=err) as process,
        ):
            end = step_end.StepEnd(process, self.job, seconds=self.action_seconds)
            self._follow(process, end, wait)
            out.seek(0)
            err.seek(0)
            done = subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())
        if end.has_begun:
            step_end.end_left_over(self.job, wait=wait)
        return done

    def _follow(
        self,
        process: subprocess.Popen[bytes],
        end: step_end.StepEnd,
        wait: Callable[[float], object],
    ) -> None:
        """Returns when the step has ended."""
        seconds = run_folder.silence(self.run)
        listing = step_end.Listing(self.job, seconds=seconds)
        waits_by, is_shown = time.monotonic() + seconds, False
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL)
                return
            wait(0.0)  # the job may be asked to end
            if listing.is_empty():
                line = "node check: srun waits for a step that Slurm does not list: ending srun"
                end.begin(step_end.Action.TERMINATE_SRUN, line)
            elif not is_shown and time.monotonic() >= waits_by:
                is_shown = True
                print(f"node check: not done after {seconds:g} s; waiting", flush=True)
            end.look()

    def _check_nodes(self, found: list[dict[str, Any]], nonce: str) -> None:
        own = {"Python": platform.python_version(), "code": versions.code_version()}
        for one in found:
            if one["nonce"] != nonce:
                raise errors.UsageError(
                    f"node {one['node']}: does not see {self.run.path!r}. Use a STORAGE= that all "
                    "nodes share"
                )
            for what, other in (("Python", one["python"]), ("code", one["code"])):
                if other != own[what]:
                    raise _build_difference_error(one["node"], what, other=other, own=own[what])

    def command(self, *, gpus: int) -> list[str]:
        """Returns the command of a training step: one task a process, all of which end if one
        ends badly."""
        wanted = [f"--gpus-per-task={gpus}"] if gpus else []
        return [
            "srun",
            f"--ntasks={self.processes}",
            f"--nodes={len(self.nodes)}",
            "--distribution=block",
            f"--cpus-per-task={self.cpus}",
            *wanted,
            _VARIABLES,
            "--kill-on-bad-exit=1",
            "--wait=0",
            "--input=none",
            *self._part("agent"),
        ]

    def _part(self, name: str) -> list[str]:
        program = [sys.executable, "-m", MODULE, f"--part={name}"]
        return [*program, f"--run={self.run.name}", f"--storage={self.storage_root}"]

    def ports_of_places(self, first: int) -> range:
        """Returns the ports of workers that may join; they are on the first node."""
        return range(first + self.processes, first + self.processes + self.places)

    def variables(self, first: int) -> dict[str, str]:
        """Returns the variables of a training step whose ports begin with `first`."""
        place = {
            "hosts": [node.address for node in self.nodes],
            "port": first,
            "counts": dict(self.counts),
            "places": [f"{self.nodes[0].address}:{port}" for port in self.ports_of_places(first)],
        }
        return {**os.environ, ranks.SLURM: json.dumps(place)}


@contextlib.contextmanager
def start_step(
    command: list[str],
    variables: dict[str, str] | None = None,
    *,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a step; ends it with the block. Its srun has a session of its own: it would end the
    tasks at once when Slurm asks the whole job to end, and they are to save."""
    process = subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _cause(said: str) -> str:
    """Returns the errors that Python has raised on nodes, without where, or what else was said."""
    return commands.extract_error("\n".join(_RAISED.findall(said)) or said)


def _check_programs(
    nodes: list[str],
    done: subprocess.CompletedProcess[str],
    said: str,
    *,
    run: Callable[[list[str]], subprocess.CompletedProcess[str]],
) -> None:
    """Raises the `PipelineError` of nodes that did not answer if they never will: they do not have
    the pipeline, or it failed for good."""
    if done.returncode in errors.FINAL_CODES:
        raise errors.build_from_exit_code(done.returncode, said)
    is_missing = _MISSING.search(done.stderr) is not None
    if is_missing or _RAISED.search(done.stderr):
        for node in nodes:
            _check_python(node, run)
    if is_missing:
        named, _, why = said.partition(": ")
        raise errors.UsageError(
            f"{named}: cannot run {sys.executable} -m {MODULE}: {why}. Install the pipeline where "
            "all nodes see it"
        )


def _check_python(node: str, run: Callable[[list[str]], subprocess.CompletedProcess[str]]) -> None:
    """Raises `UsageError` for a node whose Python, which cannot run the pipeline, is another."""
    code = "import platform; print(platform.python_version())"
    command = ["srun", f"--nodelist={node}", "--nodes=1", "--ntasks=1", _VARIABLES, "--input=none"]
    done = run([*command, sys.executable, "-c", code])
    other, own = done.stdout.strip(), platform.python_version()
    if done.returncode == 0 and other != own:
        raise _build_difference_error(node, "Python", other=other, own=own)


def _build_difference_error(node: str, what: str, *, other: str, own: str) -> errors.UsageError:
    return errors.UsageError(
        f"node {node}: its {what} is {other}, that of the job {own}. Install the same on all nodes"
    )
