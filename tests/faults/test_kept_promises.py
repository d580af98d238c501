"""Runs keep their promises, by the witness: in every mode, killed at the moments that matter.

One gang is in `make test`, the others in `make test-slow`. The whole matrix, and random kills from
outside, are `make soak`.
"""

from __future__ import annotations

import pytest

from tests.faults import moments, verdict, witness
from tests.faults.conftest import BATCH
from tests.support.sets import matrix, slow, slow_unless

SAVES = ("train.save_steps=20", "eval.throttle_seconds=1000")


def kill(by, at, target=None, **when):
    return {"by": by, "at": at, "do": "kill", "target": target or by, **when}


# However slowly it starts, the chief does not train without it.
THERE = {"by": "chief-0", "at": 5, "do": "await_step", "target": "worker-0"}


def train(rig, mode, steps, *settings, faults=()):
    """Trains and returns what was found of the run; fails if a fault never happened."""
    rig.train(
        *witness.SETTINGS,
        f"cluster.strategy={mode}",
        f"train.steps={steps}",
        *settings,
        faults=faults,
        pace=0.005 if faults else 0.0,
    )
    for number in range(len(faults)):
        rig.fired(number)
    lost = sum(restart.role == "worker" for restart in rig.restarts)
    pids = [pid for of_task in rig.seen.pids.values() for pid in of_task]
    return verdict.examine(str(rig.path), rig.records.folder, rig.job, pids=pids, workers_lost=lost)


@pytest.mark.parametrize(
    "mode", [slow_unless(mode == "mirrored", mode) for mode in ("none", "mirrored")]
)
def test_the_witness_counts_every_record_of_every_replica(rig, mode):
    found = train(rig, mode, 40)
    assert not found.wrong
    assert found.applied.total == 40 * BATCH * (1 if mode == "none" else 2)


# Each epoch is 89 batches of 32 records.
KILLS = {
    "multi_worker_mirrored": (
        kill("worker-0", 30, when=moments.SAVING),
        kill("chief-0", 44, "all"),  # the end of an epoch
        kill("worker-0", 40, "chief-0", when=moments.RESTORED),
        kill("chief-0", 100, when=moments.SAVING),  # the final save
    ),
    "parameter_server": (
        THERE,
        kill("worker-0", 5, when=moments.TAKING),
        kill("chief-0", 50, "ps-0", when=moments.SAVING),
        kill("chief-0", 89, again=True),
        kill("chief-0", 120, "ps-1", when=moments.TAKING),
        kill("chief-0", 120, when=moments.RESTORED),
    ),
    "parameter_server_sync": (
        kill("worker-0", 30, when=moments.TAKING),
        kill("chief-0", 44, "ps-0", when=moments.SAVING),
        kill("chief-0", 40, "all", when=moments.RESTORED),
    ),
    "parameter_server_strategy": (
        THERE,
        kill("chief-0", 20, "worker-0", again=True),
        kill("chief-0", 50, "ps-0", when=moments.TAKING),
        kill("chief-0", 89, when=moments.SAVING),
    ),
}
STEPS = {
    **{"multi_worker_mirrored": 100, "parameter_server": 240},
    # Epochs after those that processes were killed in are whole, too.
    **{"parameter_server_sync": 80, "parameter_server_strategy": 300},
}
SIZES = {"parameter_server": ("cluster.workers=2", "cluster.ps=2")}


@pytest.mark.parametrize(
    "mode",
    [
        "multi_worker_mirrored",
        slow("parameter_server"),
        slow("parameter_server_sync"),
        matrix("parameter_server_strategy"),
    ],
)
def test_kills_at_the_moments_that_matter(rig, mode):
    settings = (*SAVES, *SIZES.get(mode, ()))
    found = train(rig, mode, STEPS[mode], *settings, faults=KILLS[mode])
    assert not found.wrong
