"""A real Slurm for the tests of this folder, and the command that submits to it."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys

import pytest

from pipeline.runs import run_folder, run_record
from tests.faults import injected
from tests.pipeline.process_help import ROOT
from tests.slurm import real

# The first checkpoint and the last are evaluated, and few in between: how it is done is the same
# everywhere, and takes processors from other tests.
COMMON = ("eval.throttle_seconds=20",)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A controller and three nodes, for all tests of a process."""
    if missing := real.list_missing():
        pytest.skip(f"no Slurm here, {missing[0]} is missing: apt-get install slurm-wlm")
    with real.run_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@dataclasses.dataclass
class Run:
    """A run that is submitted by the command that users have."""

    cluster: real.Slurm
    config_path: str
    storage: pathlib.Path
    name: str
    # Besides those by which Slurm's programs find the cluster.
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    started: list[subprocess.Popen] = dataclasses.field(default_factory=list)

    @property
    def folder(self) -> run_folder.RunFolder:
        return run_folder.RunFolder(str(self.storage / "runs" / self.name))

    @property
    def record(self) -> run_record.RunRecord:
        found = run_record.read(self.folder)
        assert found is not None
        return found

    @property
    def job(self) -> str:
        """The number of its Slurm job."""
        return (self.record.job or "").removeprefix("slurm/")

    def command(self, module: str, *arguments: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            module,
            f"--storage={self.storage}",
            f"--run={self.name}",
            *arguments,
        ]

    def start(self, *overrides: str) -> subprocess.Popen:
        """Submits the run, and follows it in the background."""
        process = subprocess.Popen(
            self.command(
                "pipeline.launch",
                f"--config={self.config_path}",
                "--cluster=slurm",
                *(f"--set={one}" for one in (*COMMON, *overrides)),
            ),
            cwd=ROOT,
            env=real.environment(self.cluster, self.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def shown(self, *overrides: str) -> str:
        """Returns the script that DRY_RUN=1 prints."""
        done = subprocess.run(
            self.command(
                "pipeline.launch",
                f"--config={self.config_path}",
                "--cluster=slurm",
                "--dry_run",
                *(f"--set={one}" for one in (*COMMON, *overrides)),
            ),
            cwd=ROOT,
            env=real.environment(self.cluster, self.variables),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def call_without_run(self, module: str, *arguments: str) -> str:
        """Returns what a command says that knows no runs."""
        done = subprocess.run(
            [sys.executable, "-m", module, f"--storage={self.storage}", *arguments],
            cwd=ROOT,
            env=real.environment(self.cluster, self.variables),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def wait_until(self, condition) -> None:
        """Returns when a condition of the processes' own words holds."""

        def holds() -> bool:
            for process in self.started:
                assert not process.poll(), process.communicate()[0]
            return bool(condition(run_folder.read_statuses(self.folder)))

        real.wait_for(holds, self.describe, seconds=280)

    def has_made(self, step: int, *others: str) -> None:
        """Returns when the chief has made that many steps, and `others` run: where each steps by
        itself, they may start later than that."""
        self.wait_until(
            lambda found: (
                found.keys() >= {"chief-0", *others} and (found["chief-0"].step or 0) >= step
            )
        )

    def hurry_steps(self) -> None:
        """Has the steps take no longer than they must, once a test has seen what it is about."""
        self.folder.write("pace.json", {"pace": 0.0})

    def hurry(self) -> None:
        """Lets a job start that Slurm holds back for two minutes after it was put back."""

        def has_been_put_back() -> bool:
            self.cluster.ask("scontrol", "update", f"JobId={self.job}", "StartTime=now")
            shown = self.cluster.ask("scontrol", "--oneliner", "show", "job", self.job)
            return "Restarts=0" not in shown and self.cluster.jobs()[self.job] == "RUNNING"

        real.wait_for(has_been_put_back, self.describe)

    def describe(self) -> str:
        log = pathlib.Path(self.folder.log_path("slurm"))
        said = log.read_text(errors="replace") if log.exists() else ""
        return f"{self.cluster.describe()}\n{said}"


@pytest.fixture
def run(cluster, small_records, request):
    name = request.node.name.split("[")[0].removeprefix("test_")[:40]
    made = Run(cluster, small_records.config_path, small_records.storage, name)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


@pytest.fixture
def slow(run):
    """Returns a function that starts a run whose steps take `pace` seconds, until it hurries."""

    def start(*settings: str, pace: float) -> subprocess.Popen:
        run.variables["PIPELINE_FAULTS"] = run.folder.path
        run.folder.write("faults.json", {"faults": [], "pace": pace})
        return run.start(f"train.hooks=[{injected.HOOK}]", *settings)

    return start
