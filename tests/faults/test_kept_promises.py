"""Runs keep their promises, by the witness: in every mode, killed at the moments that matter."""

from __future__ import annotations

import pytest

from tests.faults import verdict, witness
from tests.faults.conftest import BATCH

# Three processes that train, or two copies in one.
MODES = {
    "none": (),
    "mirrored": (),
    "multi_worker_mirrored": ("cluster.workers=2",),
    "parameter_server": ("cluster.workers=2", "cluster.ps=2"),
    "parameter_server_sync": ("cluster.workers=2",),
}


def _judge(rig, *settings, **options):
    rig.train(*witness.SETTINGS, *settings, **options)
    lost = sum(restart.role == "worker" for restart in rig.restarts)
    pids = [pid for of_task in rig.seen.pids.values() for pid in of_task]
    return verdict.of(str(rig.path), rig.records.folder, rig.job, pids=pids, workers_lost=lost)


@pytest.mark.parametrize("mode", MODES)
def test_the_witness_counts_every_record_of_every_replica(rig, mode):
    found = _judge(rig, f"cluster.strategy={mode}", "train.steps=40", *MODES[mode])
    assert not found.wrong
    copies = 1 if mode in ("none", "parameter_server") else 2
    assert found.applied.total >= 40 * BATCH * copies
