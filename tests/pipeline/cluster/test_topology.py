import json
import pathlib
import re

import pytest

from pipeline import config, errors
from pipeline.cluster import compatibility, topology
from pipeline.cluster.topology import Task
from pipeline.config import config_file, strategy_table

ROOT = pathlib.Path(__file__).resolve().parents[3]
THREE = {"chief": ("h0:1",), "worker": ("h1:1", "h2:1"), "ps": ("h3:1",)}


def cluster(strategy, **counts):
    return config.Cluster(strategy=strategy, **counts)


@pytest.mark.parametrize(
    ("wanted", "counts"),
    [
        (cluster("none"), (1, 0, 0, 0)),
        (cluster("none", workers=0, ps=0), (1, 0, 0, 0)),
        (cluster("parameter_server"), (1, 1, 1, 1)),
        (cluster("parameter_server", workers=0), (1, 0, 1, 1)),
        (cluster("parameter_server", workers=3, ps=2), (1, 3, 2, 1)),
    ],
)
def test_which_processes_a_strategy_starts(wanted, counts):
    found = topology.role_counts(wanted)
    assert tuple(found[role] for role in topology.ROLES) == counts


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            cluster("none", workers=2),
            r"^cluster\.workers: strategy 'none' \(.*\) cannot run with 2; use workers=0 or "
            r"strategy '\w+'$",
        ),
        (cluster("none", ps=1), r"^cluster\.ps: .* cannot run with 1; use ps=0 or strategy"),
        (cluster("parameter_server", ps=0), r"^cluster\.ps: .* cannot run with 0; use ps=1"),
    ],
)
def test_what_cannot_work_is_refused_with_the_nearest_that_can(wanted, text):
    with pytest.raises(errors.UsageError, match=text):
        topology.role_counts(wanted)


def test_every_strategy_of_the_config_has_a_row_and_runs_with_its_defaults():
    choices = config.Cluster.model_json_schema()["properties"]["strategy"]["enum"]
    assert set(choices) == set(strategy_table.STRATEGIES)
    for name in choices:
        assert topology.role_counts(cluster(name))["chief"] == 1


def test_only_the_table_says_what_a_strategy_is():
    """What distinguishes one is a field of its row: no module compares its name."""
    names = "|".join(strategy_table.STRATEGIES)
    compared = re.compile(
        rf"(?:strategy|evaluating)\b[^=\n]*(==|!=|\bin\b|startswith\()"
        rf".*[\"'({{\[]({names}|parameter_server)\b"
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in ("pipeline", "trainer", "preprocessing", "serving")
        for path in (ROOT / package).rglob("*.py")
        for line in path.read_text().splitlines()
        if compared.search(line)
    ]
    assert found == []


def test_which_strategies_are_asynchronous_all_reduce_or_have_servers():
    rows = strategy_table.STRATEGIES
    assert [n for n in rows if rows[n].asynchronous] == [
        "parameter_server",
        "parameter_server_strategy",
    ]
    assert [n for n in rows if rows[n].reduces_between_processes] == ["multi_worker_mirrored"]
    assert [n for n in rows if rows[n].servers] == [n for n in rows if "parameter_server" in n]


def test_addresses_are_dealt_in_order_of_roles():
    counts = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}
    found = topology.cluster_of(counts, ["h0:1", "h1:1", "h2:1", "h3:1"])
    assert found == THREE


def test_a_chief_alone_has_no_cluster():
    assert topology.cluster_of({"chief": 1, "evaluator": 1}, ["h:1"]) == {}


@pytest.mark.parametrize(
    ("job_name", "index", "name", "rank"),
    [("chief", 0, "chief-0", 0), ("worker", 0, "worker-0", 1), ("worker", 1, "worker-1", 2)],
)
def test_readers_are_ranked_chief_first(job_name, index, name, rank):
    task = Task(job_name, index, THREE)
    assert (task.name, task.rank, task.num_readers) == (name, rank, 3)
    assert task.is_chief == (rank == 0)


@pytest.mark.parametrize("job_name", ["ps", "evaluator"])
def test_who_reads_no_training_data_has_no_rank(job_name):
    with pytest.raises(ValueError, match=f"{job_name}-0 reads no training data"):
        _ = Task(job_name, 0, THREE).rank


def test_a_single_process_is_the_only_reader():
    task = Task("chief", 0)
    assert (task.rank, task.num_readers) == (0, 1)


@pytest.mark.parametrize("job_name", ["chief", "worker", "ps"])
def test_tf_config_of_members(job_name):
    assert json.loads(Task(job_name, 0, THREE).tf_config()) == {
        "cluster": {"chief": ["h0:1"], "worker": ["h1:1", "h2:1"], "ps": ["h3:1"]},
        "task": {"type": job_name, "index": 0},
    }


@pytest.mark.parametrize("task", [Task("evaluator", 0, THREE), Task("chief", 0)])
def test_tf_config_of_those_without_peers(task):
    assert "cluster" not in json.loads(task.tf_config())


@pytest.mark.parametrize(
    ("job_name", "index", "members", "text"),
    [
        ("master", 0, THREE, r"^--job_name 'master': must be one of chief, worker, ps, evaluator"),
        ("wroker", 0, THREE, r"did you mean 'worker'\?"),
        ("ps", 0, {"chief": ("h:1",)}, r"^--job_name 'ps': the cluster has only chief"),
        ("worker", 2, THREE, r"^--task_index 2: there are 2 of worker, so it must be 0 to 1$"),
        ("evaluator", 1, THREE, r"^--task_index 1: there are 1 of evaluator, so it must be 0$"),
        ("chief", -1, {}, r"^--task_index -1: there are 1 of chief"),
    ],
)
def test_tasks_that_do_not_exist_are_refused(job_name, index, members, text):
    with pytest.raises(errors.UsageError, match=text):
        Task(job_name, index, members)


def test_a_cluster_spec_is_read_and_the_evaluator_is_no_member():
    text = '{"chief": ["h0:1"], "worker": ["h1:1", "h2:1"], "ps": ["h3:1"], "evaluator": ["h4:1"]}'
    assert topology.parse_cluster_spec(text) == THREE
    assert topology.parse_cluster_spec("") == {}


@pytest.mark.parametrize(
    ("task", "counts"),
    [
        (Task("chief", 0, THREE), (2, 1)),
        (Task("evaluator", 0, THREE), (2, 1)),
        (Task("evaluator", 0), (1, 1)),
    ],
)
def test_the_processes_of_a_spec_are_those_the_config_counts(task, counts):
    """How many gradients make a synchronous update depends on it."""
    job = topology.with_counts(config_file.load("mnist"), task)
    assert (job.cluster.workers, job.cluster.ps) == counts


def test_addresses_of_workers_that_may_join_are_not_counted():
    job = config_file.load("mnist", ["cluster.workers=1", "cluster.max_workers=2"])
    counted = topology.with_counts(job, Task("chief", 0, THREE))
    assert (counted.cluster.workers, counted.cluster.max_workers) == (1, 2)


@pytest.mark.parametrize(
    ("strategy", "task", "text"),
    [
        ("parameter_server", Task("chief", 0), r"^cluster\.ps: .* with 0; use ps=1 or strategy"),
        ("multi_worker_mirrored", Task("chief", 0), r"^cluster\.workers: .* use workers=1"),
        ("mirrored", Task("chief", 0, THREE), r"^cluster\.workers: .* with 2; use workers=0"),
    ],
)
def test_a_spec_the_strategy_cannot_run_with_is_refused(strategy, task, text):
    job = config_file.load("mnist", [f"cluster.strategy={strategy}"])
    with pytest.raises(errors.UsageError, match=text):
        topology.with_counts(job, task)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{chief", r"^--cluster_spec '\{chief': not JSON"),
        ("[1]", r"must be an object of role: \[host:port\]"),
        ('{"wroker": ["h:1"]}', r"unknown role 'wroker' \(did you mean 'worker'\?\); known: chief"),
        (
            '{"chief": "h:1"}',
            r"chief: must be a list of 'host:port', or '\[IPv6\]:port', got 'h:1'",
        ),
        (f'{{"chief": {"9" * 5001}}}', r"chief: must be a list of 'host:port'"),
        ('{"chief": ["h"]}', r"'\[IPv6\]:port', got \['h'\]"),
        ('{"chief": ["h:0"]}', r"must be a list of 'host:port'"),
        ('{"chief": ["h:65536"]}', r"must be a list of 'host:port'"),
        ('{"chief": ["h:\u00b2"]}', r"must be a list of 'host:port'"),
        ('{"chief": ["::1:80"]}', r"must be a list of 'host:port'"),
        ('{"chief": ["http://h:80"]}', r"must be a list of 'host:port'"),
        ("[" * 100_000, r"\[…': not JSON: maximum recursion depth"),
        ('{"chief": ["h:1"], "ps": ["h:1"]}', r"chief-0 and ps-0 are both at h:1; give each"),
        ('{"worker": ["h:1"]}', r"must have exactly one chief"),
        ('{"chief": ["h:1", "h:2"]}', r"must have exactly one chief"),
    ],
)
def test_bad_cluster_specs_are_refused(text, message):
    with pytest.raises(errors.UsageError, match=message):
        topology.parse_cluster_spec(text)


GLOBAL = ("train.batch_size_is=global", "cluster={strategy: mirrored, replicas: 3}")


def test_a_global_batch_is_shared_evenly():
    job = config_file.load("mnist", ["train.batch_size=96", *GLOBAL])
    assert topology.batch_per_replica(job) == 32
    assert topology.examples_per_step(job) == 96


@pytest.mark.parametrize(("size", "nearest"), [(100, "99 or 102"), (2, "3"), (101, "99 or 102")])
def test_a_global_batch_that_cannot_be_is_refused_with_the_nearest_that_can(size, nearest):
    job = config_file.load("mnist", [f"train.batch_size={size}", *GLOBAL])
    text = rf"^train\.batch_size: {size} examples cannot be .* by 3 replicas; use {nearest}, or "
    with pytest.raises(errors.UsageError, match=text):
        compatibility.check(job)


def test_a_global_batch_of_asynchronous_processes_is_that_of_one_update():
    job = config_file.load("mnist", ["train.batch_size=100", "train.batch_size_is=global"])
    assert topology.batch_per_replica(job) == topology.examples_per_step(job) == 100


def test_the_more_processes_there_are_the_less_often_each_looks():
    def task(workers):
        return topology.Task("chief", 0, {"chief": ("h:1",), "worker": ("h:2",) * workers})

    assert topology.Task("chief", 0).processes == 1
    assert task(3).processes == 5
    assert task(3).spread(0.5) == topology.Task("chief", 0).spread(0.5) == 0.5
    # What all of them ask for in a second is bounded.
    assert task(118).spread(0.5) == 3.0
    assert task(998).processes / task(998).spread(0.5) == task(118).processes / 3.0
