"""What cannot work on a real Slurm: one line with what to do, its exit code, nothing trained."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from pipeline.runs import run_folder
from tests.pipeline.process_help import ROOT
from tests.support.sets import matrix_unless

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Three processes on three nodes.
SETTINGS = ("cluster.strategy=multi_worker_mirrored", "cluster.workers=1", "slurm.nodes=3")
FIRST, LAST = "n1", "n3"
OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def nothing(run, monkeypatch, tmp_path):
    return contextlib.nullcontext()


def no_programs(run, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "variables", {"PATH": str(tmp_path)})
    return contextlib.nullcontext()


def no_controller(run, monkeypatch, tmp_path):
    """Its port is that of nobody."""
    text = run.cluster.config.read_text()
    lines = ["SlurmctldPort=9" if "SlurmctldPort" in one else one for one in text.splitlines()]
    (tmp_path / "slurm.conf").write_text("\n".join([*lines, "MessageTimeout=2"]))
    monkeypatch.setattr(run, "variables", {"SLURM_CONF": str(tmp_path / "slurm.conf")})
    return contextlib.nullcontext()


def no_configuration(run, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "variables", {"SLURM_CONF": str(tmp_path / "nowhere.conf")})
    return contextlib.nullcontext()


def lenient(run, monkeypatch, tmp_path):
    """Slurm takes jobs that it will never start."""
    return run.cluster.lenient()


def storage_of_its_own(run, monkeypatch, tmp_path):
    """The last node has an empty folder in the place of the shared one."""
    (tmp_path / "empty").mkdir()
    return run.cluster.other_folders(LAST, {str(run.storage): str(tmp_path / "empty")})


def other_code(run, monkeypatch, tmp_path):
    """The last node has the pipeline of another day."""
    copy = tmp_path / "pipeline"
    shutil.copytree(ROOT / "pipeline", copy)
    with (copy / "errors.py").open("a") as file:
        file.write("# another version\n")
    return run.cluster.other_folders(LAST, {str(ROOT / "pipeline"): str(copy)})


def no_package(run, monkeypatch, tmp_path):
    """The last node does not have the pipeline."""
    (tmp_path / "empty").mkdir()
    return run.cluster.other_folders(LAST, {str(ROOT / "pipeline"): str(tmp_path / "empty")})


def find_other_python():
    """Returns a Python of another version that this machine has, if it has one."""
    beside = pathlib.Path(sys.base_prefix).parent.glob("3.*/bin/python3.*[0-9]")  # pyenv's
    in_path = filter(None, (shutil.which(f"python3.{minor}") for minor in range(8, 14)))
    for path in [*sorted(beside), *in_path]:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if done.returncode == 0 and not done.stdout.startswith(f"Python {OWN_PYTHON}."):
            return path
    return None


def other_python(node):
    """A node has another Python in the place of the job's."""

    def plant(run, monkeypatch, tmp_path):
        if (other := find_other_python()) is None:
            pytest.skip(f"no other Python here than {OWN_PYTHON}")
        script = tmp_path / "python"
        script.write_text(f'#!/bin/sh\nexec {other} "$@"\n')
        script.chmod(0o755)
        return run.cluster.other_folders(node, {os.path.realpath(sys.executable): str(script)})

    return plant


Plant = Callable[[object, pytest.MonkeyPatch, pathlib.Path], contextlib.AbstractContextManager]


@dataclasses.dataclass(frozen=True)
class Row:
    """What is planted, what the last line begins with and has, and the exit code."""

    begins: str
    has: str = ""
    settings: tuple[str, ...] = ()
    plant: Plant = nothing
    code: int = 64


NEVER = "error: Slurm job "
REFUSED = "error: sbatch: Batch job submission failed: "
ROWS = {
    "no programs": Row(
        "error: CLUSTER=slurm: no sbatch, squeue, scontrol on this machine",
        "Run the command where jobs are submitted",
        plant=no_programs,
    ),
    "no controller": Row(
        "error: squeue: ", "Run the same command again", plant=no_controller, code=75
    ),
    "wrong partition": Row(
        "error: sbatch: invalid partition specified: nowhere; ",
        "Choose one that sinfo shows, with slurm.partition",
        settings=("slurm.partition=nowhere",),
    ),
    "no permission": Row(
        REFUSED,
        "Choose an account and partition that you may use",
        settings=("slurm.partition=closed",),
    ),
    "more nodes than there are": Row(
        REFUSED, "Ask for less with slurm.nodes", settings=("slurm.nodes=4", "cluster.workers=4")
    ),
    "more time than is allowed": Row(
        REFUSED,
        "Ask for less with slurm.time",
        settings=("slurm.partition=short", "slurm.time=01:00:00"),
    ),
    "more time than is ever given": Row(
        NEVER,
        " can never start (PartitionTimeLimit), and is cancelled. Ask for less with slurm.time",
        settings=("slurm.partition=short", "slurm.time=01:00:00"),
        plant=lenient,
    ),
    "more nodes than are ever given": Row(
        NEVER,
        ", and is cancelled. Ask for less with slurm.",
        settings=("slurm.partition=narrow",),
        plant=lenient,
    ),
    "a partition that is never given": Row(
        NEVER,
        ", and is cancelled. Choose an account and partition",
        settings=("slurm.partition=closed",),
        plant=lenient,
    ),
    "more processors than are ever given": Row(
        NEVER, " can never start (PartitionConfig)", settings=("slurm.cpus=99",), plant=lenient
    ),
    "no such resource": Row(
        "error: sbatch: Invalid generic",
        "Ask for what sinfo --format='%P %G' shows",
        settings=("slurm.options=[--gres=tpu:1]",),
    ),
    "more GPUs than a node has": Row(
        REFUSED, "Ask for less with slurm.nodes", settings=("slurm.gpus=9",)
    ),
    "no such feature": Row(
        REFUSED, "Name features that sinfo", settings=("slurm.constraint=avx9",)
    ),
    "no such licence": Row(
        REFUSED, "that scontrol show licenses", settings=("slurm.options=[--licenses=x]",)
    ),
    "no such reservation": Row(
        REFUSED, "that scontrol show reservation", settings=("slurm.options=[--reservation=x]",)
    ),
    "more processors than a node has": Row(
        REFUSED, "Ask for less with slurm.", settings=("slurm.cpus=99",)
    ),
    "no such configuration": Row(
        "error: SLURM_CONF=", "not found. Name the slurm.conf", plant=no_configuration
    ),
    "storage that a node does not see": Row(
        f"error: node {LAST}: ",
        "Use a STORAGE= that all nodes share",
        plant=storage_of_its_own,
    ),
    "other code": Row(
        f"error: node {LAST}: its code is ", "Install the same on all", plant=other_code
    ),
    "another Python, first node": Row(
        f"error: node {FIRST}: its Python is 3.",
        f", that of the command {OWN_PYTHON}. Install the same on all nodes",
        plant=other_python(FIRST),
    ),
    "another Python, last node": Row(
        f"error: node {LAST}: its Python is 3.",
        f", that of the job {platform.python_version()}. Install the same on all nodes",
        plant=other_python(LAST),
    ),
    "no package": Row(
        f"error: node {LAST}: cannot run ",
        "Install the pipeline where all nodes see it",
        plant=no_package,
    ),
}


@pytest.mark.parametrize(
    "row",  # every other one is in `make test-slow`
    [matrix_unless(number % 2 == 0, row) for number, row in enumerate(ROWS.values())],
    ids=ROWS,
)
def test_it_is_reported_in_one_line_and_nothing_trains(run, row, monkeypatch, tmp_path):
    with row.plant(run, monkeypatch, tmp_path):
        process = run.start(*SETTINGS, *row.settings)
        said, _ = process.communicate()
    last = said.splitlines()[-1]
    assert process.returncode == row.code, said
    assert last.startswith(row.begins) and row.has in last, said
    assert "Traceback" not in said
    assert run_folder.find_saved_step(run.folder) is None
    assert run_folder.read_statuses(run.folder) == {}
    assert not [n for n, word in run.cluster.jobs().items() if word in ("PENDING", "RUNNING")]
