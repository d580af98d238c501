"""Ranks and ports of a Slurm job, from the variables that Slurm sets."""

import itertools
import json

import pytest

from pipeline import errors
from pipeline.cluster.topology import Task
from pipeline.launchers.slurm.ranks import choose_first_port, parse_node_counts, task_of


def step_of(rank, node, *, hosts=("a", "b"), per_node="3,1", places=(), **counts):
    told = {"hosts": list(hosts), "port": 9000, "counts": counts, "places": list(places)}
    return {
        "PIPELINE_SLURM": json.dumps(told),
        "SLURM_PROCID": str(rank),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_TASKS_PER_NODE": per_node,
    }


def test_ranks_of_a_slurm_step():
    """Four processes on two nodes, three of them on the first."""
    counts = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    cluster = {"chief": ("a:9000",), "worker": ("a:9001",), "ps": ("a:9002",)}
    assert task_of(step_of(0, 0, **counts)) == Task("chief", 0, cluster)
    assert task_of(step_of(2, 0, **counts)) == Task("ps", 0, cluster)
    assert task_of(step_of(3, 1, **counts)) == Task("evaluator", 0, cluster)
    alone = step_of(0, 0, hosts=["a"], per_node="1", chief=1)
    assert task_of(alone) == Task("chief", 0)


def test_workers_that_may_join_come_after_those_that_there_are():
    counts = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    found = task_of(step_of(1, 0, places=["a:9004", "a:9005"], **counts))
    assert found.cluster["worker"] == ("a:9001", "a:9004", "a:9005")
    assert found.cluster["ps"] == ("a:9002",)


def test_repeated_numbers_of_tasks():
    assert parse_node_counts("4,2(x3),1") == [4, 2, 2, 2, 1]
    counts = {"chief": 1, "worker": 3}
    found = task_of(step_of(2, 1, per_node="2(x2)", **counts))
    assert found.name == "worker-1"
    assert found.cluster["worker"] == ("a:9001", "b:9002", "b:9003")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "not a step of a job of ours"),
        ({**step_of(0, 0, chief=1), "PIPELINE_SLURM": "{"}, "not a step of a job of ours"),
        (step_of(0, 0, chief=1, worker=1), "2 processes on 2 nodes do not fit rank 0"),
        (step_of(1, 1, chief=1, worker=3), "do not fit rank 1 of SLURM_STEP_TASKS_PER_NODE=3,1"),
    ],
)
def test_slurm_variables_that_do_not_fit(environment, words):
    with pytest.raises(errors.UsageError, match=words):
        task_of(environment)


def test_ports_of_slurm_jobs():
    """Jobs and attempts that are neighbours do not overlap, and all stay within the range."""
    firsts = [
        choose_first_port(job, attempt, 20, lowest=10240, highest=32767)
        for job in range(100, 120)
        for attempt in (0, 20)
    ]
    assert all(10240 <= first <= 32767 - 19 for first in firsts)
    ordered = sorted(firsts)
    assert all(b - a >= 20 for a, b in itertools.pairwise(ordered))
    with pytest.raises(errors.UsageError, match=r"slurm\.first_port, slurm\.last_port: 2000 proc"):
        choose_first_port(1, 0, 2000, lowest=10240, highest=11240)
