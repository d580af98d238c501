"""One short job on a real Slurm, in `make test`; the others of this folder are slow."""

from __future__ import annotations

import pytest

from tests.slurm.ends import await_end, check_done

SHORT = (
    "cluster.strategy=parameter_server",
    "cluster.workers=1",
    "slurm.nodes=2",
    "train.epochs=null",
    "train.steps=20",
    "train.save_steps=20",
)


@pytest.mark.timeout(300)
def test_a_job_on_two_nodes_is_submitted_followed_and_ends_with_an_export(run):
    said = await_end(run, run.start(*SHORT))
    check_done(run, 20)
    assert run.cluster.jobs()[run.job] == "COMPLETED"
    assert f"job {run.job}" in said
    assert "already finished" in await_end(run, run.start(*SHORT))
