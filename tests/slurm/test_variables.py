"""Variables of the shell that stand for options of Slurm's programs."""

from __future__ import annotations

import pytest

from tests.slurm.ends import await_end, check_done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_they_change_neither_the_job_nor_what_is_seen_of_it(run):
    """Nor do tasks lose their own if the job has none of the shell."""
    run.variables |= {
        "SBATCH_EXPORT": "NONE",
        "SBATCH_JOB_NAME": "other",
        "SBATCH_NO_REQUEUE": "1",
        "SBATCH_PARTITION": "closed",
        "SBATCH_TIMELIMIT": "1",
        "SLURM_EXPORT_ENV": "NONE",
        # Within an allocation; a step may not ask for both.
        "SLURM_MEM_PER_CPU": "100",
        "SLURM_MEM_PER_NODE": "100",
        "SQUEUE_PARTITION": "urgent",
        "SQUEUE_STATES": "PENDING",
    }
    process = run.start(
        "cluster.strategy=parameter_server", "cluster.workers=1", "train.epochs=null",
        "train.steps=100", "slurm.options=[--export=NONE]",
    )  # fmt: skip
    output = await_end(run, process)
    check_done(run, 100)
    assert run.record.restarts == []
    assert "note: SBATCH_EXPORT, SBATCH_JOB_NAME, SBATCH_NO_REQUEUE, SBATCH_PARTITION" in output
    shown = run.cluster.ask("scontrol", "--oneliner", "show", "job", run.job)
    for field in (f"JobName=train-{run.name} ", "Partition=main ", "Requeue=1 "):
        assert field in shown
    assert "TimeLimit=UNLIMITED" in shown or "TimeLimit=365-" in shown
