"""The script of a job, as sbatch is given it."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from pipeline import errors
from pipeline.launchers.slurm import script
from pipeline.launchers.slurm.launcher import SlurmLauncher
from tests.pipeline.jobs.jobs import plan


def lines(*overrides, storage_root="/shared/out", **others):
    job = plan(*overrides, storage_root=storage_root)
    return script.render(job, "s1", folder="/shared/project", **others).splitlines()


def test_a_whole_script():
    *found, check, last = lines("cluster.workers=2")
    assert check.startswith(f"here=$({sys.executable} -c ")
    assert [*found, last] == [
        "#!/bin/bash",
        "#SBATCH --job-name=train-r1",
        "#SBATCH --comment=estimator-pipeline:/shared/out/runs/r1",
        "#SBATCH --ntasks=5",
        "#SBATCH --cpus-per-task=1",
        "#SBATCH --signal=B:TERM@180",
        "#SBATCH --output=/shared/out/runs/r1/logs/slurm.log",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --chdir=/shared/project",
        "export PIPELINE_SUBMISSION=s1",
        f"exec {sys.executable} -m pipeline.launchers.slurm.main --part=batch --run=r1 "
        "--storage=/shared/out",
    ]


@pytest.mark.parametrize(
    ("prints", "words"), [("3.9", "3.9"), (None, "missing"), (f"3.{sys.version_info.minor}", "")]
)
def test_a_node_with_another_python_ends_the_job(tmp_path, monkeypatch, prints, words):
    own, python = f"3.{sys.version_info.minor}", tmp_path / "its python"
    if prints is not None:
        python.write_text(f"#!/bin/sh\necho {prints}\n")
        python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    done = subprocess.run(
        ["bash", "-c", lines()[-2]],
        env={"SLURMD_NODENAME": "n1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    said = f"error: node n1: its Python is {words}, that of the command {own}. Install the same on "
    assert (done.returncode, done.stdout) == ((64, f"{said}all nodes\n") if words else (0, ""))


def test_what_the_config_asks_for():
    found = lines(
        "slurm.partition=gpu",
        "slurm.account=team",
        "slurm.qos=high",
        "slurm.nodes=3",
        "slurm.time=1-12:00:00",
        "slurm.constraint=a100&ssd",
        "slurm.cpus=8",
        "slurm.memory_gb=64",
        "slurm.gpus=1",
        "slurm.requeue=false",
        "slurm.options=[--exclusive, --exclude=n7]",
    )
    for option in (
        "--partition=gpu",
        "--account=team",
        "--qos=high",
        "--nodes=3",
        "--time=1-12:00:00",
        "--constraint=a100&ssd",
        "--cpus-per-task=8",
        "--mem=64G",
        "--gpus-per-task=1",
        "--no-requeue",
        "--exclusive",
        "--exclude=n7",
    ):
        assert f"#SBATCH {option}" in found


def test_more_nodes_than_processes_are_not_asked_for():
    found = lines("cluster.strategy=none", "cluster.workers=null", "slurm.nodes=3")
    assert "#SBATCH --nodes=1" in found and "#SBATCH --ntasks=1" in found


def test_paths_are_quoted_as_bash_and_sbatch_read_them():
    found = lines(storage_root="/shared/my out's")
    assert '#SBATCH --output="/shared/my out\'s/runs/r1/logs/slurm.log"' in found
    assert shlex.split(found[-1])[-1] == "--storage=/shared/my out's"
    assert any("/100%%/" in line for line in lines(storage_root="/shared/100%"))


def test_the_script_of_an_array():
    found = lines("slurm.array=0-4%2", storage_root="/shared/100%")
    for line in (
        "#SBATCH --array=0-4%2",
        "#SBATCH --comment=estimator-pipeline-array:/shared/100%/runs/r1",
        "#SBATCH --output=/shared/100%%/runs/r1-%a/logs/slurm.log",
    ):
        assert line in found
    assert found[-1].endswith(" --part=element --run=r1 --storage=/shared/100%")
    assert "#SBATCH --output=slurm-%A_%a.out" in lines("slurm.array=0-4%2", inline="x: 1")


@pytest.mark.parametrize(
    "override", [r'slurm.constraint="a\nrm -rf x"', r'slurm.options=["--wrap\nrm -rf x"]']
)
def test_a_value_cannot_become_a_line_of_its_own(override):
    with pytest.raises(errors.UsageError, match=r"one line|must look like"):
        lines(override)


def test_a_dry_run_shows_the_script():
    shown = SlurmLauncher().show(plan(storage_root="/shared/out"))
    assert shown.document.startswith("#!/bin/bash\n#SBATCH --job-name=train-r1\n")
    assert "would give the script above to sbatch" in shown.notes
