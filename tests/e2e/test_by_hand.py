"""Roles started one by one on hosts of their own, which share nothing but a folder."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest

from tests.e2e import hosts
from tests.pipeline.process_help import ROOT, child_environment
from tests.support.ending import find_last_steps

IMPOSSIBLE = hosts.explain_unavailable()
pytestmark = pytest.mark.skipif(IMPOSSIBLE is not None, reason=str(IMPOSSIBLE))

PORT = 2222
PARAMETER_SERVER = ("worker-0", "evaluator-0", "ps-0", "chief-0")  # the chief last
ALL_REDUCE = ("chief-0", "evaluator-0", "worker-0")


# In `make test`, tests/trainer/lifecycle/test_stopping.py starts roles by hand on one host.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "order", "told"),
    [
        ("parameter_server", PARAMETER_SERVER, "flags"),
        ("multi_worker_mirrored", ALL_REDUCE, "TF_CONFIG"),
    ],
)
def test_they_find_each_other_train_and_all_end(small_records, strategy, order, told):
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(hosts.hosts(len(order)))
        where = dict(zip(order, made, strict=True))
        cluster: dict[str, list[str]] = {}
        for name in sorted(order):
            if name != "evaluator-0":
                address = where[name][1]
                cluster.setdefault(name.partition("-")[0], []).append(f"{address}:{PORT}")
        started = {}
        for name in order:
            started[name] = stack.enter_context(
                _started(small_records, strategy, where[name][0], name, told, cluster)
            )
            stack.callback(started[name].kill)
        outputs = {name: process.communicate(timeout=120)[0] for name, process in started.items()}
    codes = {name: process.returncode for name, process in started.items()}
    assert codes == dict.fromkeys(order, 0), outputs
    result = (small_records.storage / "runs" / f"by-hand-{strategy}" / "RESULT.json").read_text()
    processes = 2 if strategy == "parameter_server" else 0
    assert json.loads(result)["final_step"] in find_last_steps(60, processes=processes)


def _started(small_records, strategy, namespace, name, told, cluster):
    role, _, index = name.partition("-")
    environment = {**child_environment(), "TF_CPP_MIN_LOG_LEVEL": "2"}
    where = []
    if told == "TF_CONFIG":
        task = {"type": role, "index": int(index)}
        environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    else:
        where = [f"--job_name={role}", f"--task_index={index}"]
        where += [f"--{of}_hosts={','.join(members)}" for of, members in cluster.items()]
    return subprocess.Popen(
        [
            "ip",
            "netns",
            "exec",
            namespace,
            sys.executable,
            "-m",
            "trainer.task",
            *where,
            f"--config={small_records.config_path}",
            f"--storage={small_records.storage}",
            f"--run=by-hand-{strategy}",
            f"--set=cluster.strategy={strategy}",
            "--set=train.steps=60",
            "--set=train.save_steps=30",
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
