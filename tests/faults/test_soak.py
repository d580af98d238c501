"""Twenty kills in one run."""

from __future__ import annotations

import collections
import random

import pytest

from pipeline.supervision import restart_policy
from tests.faults.conftest import BATCH, check_ledger
from tests.support.ending import find_last_steps

KILLS, STEPS, SEED = 20, 1500, 20
ROLES = ("chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0")


@pytest.mark.matrix
@pytest.mark.slow
def test_twenty_kills_at_random_steps_over_random_roles(rig):
    rng = random.Random(SEED)
    steps = sorted(rng.sample(range(30, STEPS - 100), KILLS))
    targets = [rng.choice(ROLES) for _ in steps]
    assert set(targets) == set(ROLES), "choose another seed"
    faults = tuple(
        {"by": "chief-0", "at": step, "do": "kill", "target": target}
        for step, target in zip(steps, targets, strict=True)
    )
    result = rig.train(
        "cluster.strategy=parameter_server",
        "cluster.workers=2",
        f"train.steps={STEPS}",
        "train.save_steps=25",
        "eval.throttle_seconds=2",
        faults=faults,
        pace=0.003,
        policy=restart_policy.Policy("task", most=KILLS, delays=(0.0,)),
    )
    assert result["final_step"] in find_last_steps(STEPS, processes=3)
    for number in range(KILLS):
        rig.fired(number)
    killed = collections.Counter(target.partition("-")[0] for target in targets)
    # One that has just failed for want of a peer may be killed as well, and others may fail so.
    started_again = collections.Counter(restart.role for restart in rig.restarts)
    assert started_again >= killed
    # A worker's own batch; of all three when parameters go back.
    doubled = started_again["worker"] + 3 * (started_again["chief"] + started_again["ps"])
    check_ledger(result["input"], twice=doubled * BATCH)
    rig.check_files()
    assert sum(1 for _ in rig.path.rglob("RESULT.json")) == 1
