"""Golden variables and flags, and the task each of them means."""

from __future__ import annotations

import json

import pytest

from pipeline import errors
from pipeline.cluster.task_discovery import (
    read_cluster_spec,
    read_tf_config,
    task_of,
)
from pipeline.cluster.topology import Task

CHIEF, WORKERS, PS = "h0:2222", ["h1:2222", "h2:2222"], ["h3:2222"]
CLUSTER = {"chief": (CHIEF,), "worker": tuple(WORKERS), "ps": tuple(PS)}
SPEC = {"chief": [CHIEF], "worker": WORKERS, "ps": PS}
POOLS = {"workerpool0": [CHIEF], "workerpool1": WORKERS, "workerpool2": PS}


def variable(cluster, kind, index):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def place(environment=None, *, job_name=None, task_index=0, **others):
    return task_of(environment or {}, job_name=job_name, task_index=task_index, **others)


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": {}, "task": {}}'])
def test_variables_that_name_no_cluster_say_nothing(text):
    assert read_tf_config(text) is None and read_cluster_spec(text) is None
    assert place({"TF_CONFIG": text, "CLUSTER_SPEC": text}) == Task("chief", 0)


@pytest.mark.parametrize(
    ("text", "task"),
    [
        (variable(SPEC, "worker", 1), Task("worker", 1, CLUSTER)),
        (variable(SPEC, "ps", "0"), Task("ps", 0, CLUSTER)),
        (variable(SPEC, "evaluator", 0), Task("evaluator", 0, CLUSTER)),
        (variable({**SPEC, "evaluator": ["h4:1"]}, "evaluator", 0), Task("evaluator", 0, CLUSTER)),
        (variable({"chief": [CHIEF]}, "chief", 0), Task("chief", 0)),
        (variable({}, "master", 0), Task("chief", 0)),
        (variable({}, "evaluator", 0), Task("evaluator", 0)),
        (
            variable({"chief": ["[::1]:1"], "ps": ["[fe80::2%eth0]:1"]}, "ps", 0),
            Task("ps", 0, {"chief": ("[::1]:1",), "ps": ("[fe80::2%eth0]:1",)}),
        ),
    ],
)
def test_tf_config(text, task):
    assert read_tf_config(text) == task
    assert place({"TF_CONFIG": text}) == task


@pytest.mark.parametrize(
    ("text", "task"),
    [
        (variable({"workerpool0": [CHIEF]}, "workerpool0", 0), Task("chief", 0)),
        (
            variable({"workerpool0": [CHIEF], "workerpool1": WORKERS}, "workerpool1", 1),
            Task("worker", 1, {"chief": (CHIEF,), "worker": tuple(WORKERS)}),
        ),
        (variable(POOLS, "workerpool2", 0), Task("ps", 0, CLUSTER)),
        # The pool of parameter servers is empty, and so its number is skipped.
        (
            variable(
                {"workerpool0": [CHIEF], "workerpool1": WORKERS, "workerpool3": ["h4:1"]},
                "workerpool3",
                0,
            ),
            Task("evaluator", 0, {"chief": (CHIEF,), "worker": tuple(WORKERS)}),
        ),
    ],
)
def test_pools_of_vertex(text, task):
    assert read_cluster_spec(text) == task
    assert place({"CLUSTER_SPEC": text}) == task


def test_two_variables_may_agree_but_not_differ():
    both = {
        "TF_CONFIG": variable(SPEC, "worker", 1),
        "CLUSTER_SPEC": variable(POOLS, "workerpool1", 1),
    }
    assert place(both) == Task("worker", 1, CLUSTER)
    both["CLUSTER_SPEC"] = variable(POOLS, "workerpool1", 0)
    with pytest.raises(
        errors.UsageError,
        match="TF_CONFIG makes this process worker-1 of 1 chief, 2 workers, 1 ps, "
        "CLUSTER_SPEC worker-0 of",
    ):
        place(both)


def test_hosts_of_the_service_count_where_the_two_differ():
    told = []
    both = {
        "TF_CONFIG": variable({**SPEC, "worker": ["h1:2222", "other:2222"]}, "worker", 1),
        "CLUSTER_SPEC": variable(POOLS, "workerpool1", 1),
    }
    assert place(both, tell=told.append) == Task("worker", 1, CLUSTER)
    assert told == [
        "note: TF_CONFIG has worker-1 at other:2222, CLUSTER_SPEC at h2:2222; CLUSTER_SPEC counts"
    ]


def test_a_master_is_a_chief():
    spec = {"master": [CHIEF], "worker": WORKERS, "ps": PS}
    assert read_tf_config(variable(spec, "master", 0)) == Task("chief", 0, CLUSTER)
    assert read_tf_config(variable(spec, "worker", 1)) == Task("worker", 1, CLUSTER)
    pools = variable(POOLS, "workerpool0", 0)
    both = {"TF_CONFIG": variable(spec, "master", 0), "CLUSTER_SPEC": pools}
    assert place(both) == Task("chief", 0, CLUSTER)


def test_flags_win():
    environment = {"TF_CONFIG": variable(SPEC, "worker", 1)}
    task = place(environment, job_name="ps", cluster_spec=json.dumps(SPEC))
    assert task == Task("ps", 0, CLUSTER)
    assert place(environment, job_name="chief") == Task("chief", 0)


def test_hosts_by_role():
    hosts = {"chief": CHIEF, "worker": ", ".join(WORKERS), "ps": PS[0]}
    assert place(job_name="worker", task_index=1, hosts=hosts) == Task("worker", 1, CLUSTER)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"cluster_spec": json.dumps(SPEC), "hosts": {"ps": PS[0]}},
            "--cluster_spec and --ps_hosts: give one or the other",
        ),
        ({"hosts": {"worker": "h1:1"}}, "--ps_hosts: must have exactly one chief"),
        ({"hosts": {"chief": "h1"}}, r"chief: must be a list of 'host:port', or .*, got \['h1'\]"),
        ({"environment": {"TF_CONFIG": "{"}}, "TF_CONFIG '{': not JSON"),
        ({"environment": {"TF_CONFIG": "[]"}}, r"TF_CONFIG '\[\]': must be an object"),
        (
            {"environment": {"TF_CONFIG": variable({**SPEC, "master": ["h:1"]}, "master", 0)}},
            "TF_CONFIG: has a chief and a master, which are two names for one role",
        ),
        (
            {"environment": {"CLUSTER_SPEC": variable({"workerpool9": ["h:1"]}, "w", 0)}},
            r"CLUSTER_SPEC: unknown role 'workerpool9' \(did you mean",
        ),
        ({"environment": {"TF_CONFIG": json.dumps({"cluster": SPEC})}}, "cluster and a task"),
        (
            {"environment": {"TF_CONFIG": variable({}, "worker", 1)}},
            r"^worker-1 has no cluster: give the addresses of all tasks by TF_CONFIG",
        ),
        ({"job_name": "ps"}, r"^ps-0 has no cluster"),
        (
            {"environment": {"TF_CONFIG": variable(SPEC, ["worker"], 0)}},
            r"TF_CONFIG: unknown role \['worker'\]",
        ),
        (
            {"environment": {"TF_CONFIG": variable(SPEC, "worker", "\u00b2")}},
            "TF_CONFIG: task index '\u00b2': must be a number",
        ),
        (
            {"environment": {"TF_CONFIG": variable(SPEC, "worker", "one")}},
            "TF_CONFIG: task index 'one': must be a number",
        ),
        ({"environment": {"TF_CONFIG": variable(SPEC, "worker", 7)}}, "must be 0 to 1"),
    ],
)
def test_what_cannot_be_understood_is_refused(arguments, text):
    with pytest.raises(errors.UsageError, match=text):
        place(**arguments)
