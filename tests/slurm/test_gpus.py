"""GPUs as a real Slurm gives them to the tasks of a step: device files that stand for some."""

from __future__ import annotations

import pathlib
import shlex
import sys

import pytest

from pipeline.jobs import job as jobs
from pipeline.launchers.slurm import script
from pipeline.launchers.slurm.steps import Allocation, Node
from tests.slurm import real

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = ("cluster.strategy=multi_worker_mirrored", "cluster.workers=3", "slurm.gpus=1")
SHOW = "echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"


def test_each_task_of_a_step_has_gpus_of_its_own(cluster, tmp_path):
    """The job and the step are those of a run; in the place of its processes stands a shell."""
    job = jobs.plan("mnist", [*SETTINGS, "slurm.nodes=3"], run="r", storage_root=str(tmp_path))
    nodes = [Node(name, name) for name in cluster.nodes]
    allocation = Allocation(job.run, job.storage_root, nodes, job.counts, "1")
    command = allocation.command(gpus=1)
    step = [*command[: command.index(sys.executable)], "bash", "-c", SHOW]
    lines = script.render(job, "s", inline="").splitlines()
    path = tmp_path / "job.sh"
    path.write_text("\n".join([*lines[:-1], shlex.join(step), ""]))
    number = cluster.ask("sbatch", "--parsable", f"--output={tmp_path}/out", str(path))
    real.wait_for(lambda: cluster.jobs()[number] in ("COMPLETED", "FAILED"), cluster.describe)
    rows = [line.split() for line in pathlib.Path(tmp_path, "out").read_text().splitlines()]
    assert sorted(rank for rank, *_ in rows) == [str(n) for n in range(allocation.processes)]
    places = [(node, gpu) for _, node, gpu in rows]
    assert len({*places}) == len(places)
    assert {gpu for _, gpu in places} == {"0", "1"}


def test_a_process_that_sees_none_of_its_gpus_ends_the_run(run):
    process = run.start("cluster.strategy=none", "cluster.workers=null", "slurm.gpus=2")
    said, _ = process.communicate()
    assert process.returncode == 64, said
    assert "this machine has 2 GPUs by the config, and TensorFlow sees none" in said
