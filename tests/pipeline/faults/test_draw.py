"""Which faults are drawn."""

from __future__ import annotations

import collections
import random

import pytest

from pipeline import errors
from pipeline.faults import draw, targets

COUNTS = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}


def drawn(seed, number=20, **options):
    given = {"steps": 1000, "kinds": list(draw.KINDS), "counts": COUNTS, "together": False}
    return draw.faults(number, seed, **{**given, **options})


def test_the_seed_decides_everything():
    assert drawn(1) == drawn(1) != drawn(2)


def test_all_kinds_come_and_kills_twice_as_often():
    kinds = collections.Counter(fault.kind for fault in drawn(3, 4 * (len(draw.KINDS) + 1)))
    assert kinds == {**dict.fromkeys(draw.KINDS, 4), "kill": 8}


def test_faults_are_due_within_training_one_after_the_other():
    steps = [fault.step for fault in drawn(4)]
    assert steps == sorted(set(steps))
    assert steps[0] >= 50 and steps[-1] < 850


def test_where_seconds_have_cut_training_more_of_them_are_advised():
    with pytest.raises(errors.UsageError, match=r"at least 250\. Give SECONDS=25, or FAULTS=8$"):
        draw.check_length(100, 20, seconds=10)


def test_what_lasts_has_seconds_and_stops_hit_one_process():
    for fault in drawn(5, 100):
        assert bool(fault.seconds) == (fault.kind in ("stop", "disk", "slow_disk", "network"))
        if fault.kind == "stop":
            assert fault.target in ("chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0")


def test_training_too_short_names_the_steps_and_the_faults_that_fit():
    draw.check_length(draw.count_needed_steps(20, 0.0), 20)
    message = r'training has 100 steps.* at least 250\. Give SET="train.steps=250", or FAULTS=8$'
    with pytest.raises(errors.UsageError, match=message):
        draw.check_length(100, 20)
    with pytest.raises(errors.UsageError, match=r'Give SET="train.steps=13"$'):
        draw.check_length(5, 1)


def test_fast_training_needs_more_steps():
    draw.check_length(1000, 20, rate=10.0)
    with pytest.raises(errors.UsageError, match="at least 5,000"):
        draw.check_length(1000, 20, rate=200.0)


@pytest.mark.parametrize("together", [False, True])
def test_runs_are_launched_again_before_restarts_become_slow(together):
    chosen = targets.Targets(COUNTS, random.Random(1), together=together)
    since: collections.Counter[str] = collections.Counter()
    for _ in range(500):
        target = chosen.draw()
        chosen.note(target)
        since[target] += 1
        if target == targets.LAUNCHER:
            since.clear()
        trained = [since[name] for name in ("chief-0", "worker-0", "worker-1", "ps-0")]
        of_all = since[targets.ALL] + since[targets.FORK_SERVER]
        assert (sum(trained) if together else max(trained)) + of_all <= 5
