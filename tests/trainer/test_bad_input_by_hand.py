"""What cannot work where processes are started one by one: one line, its exit code, no step.
Other code and another config are in `lifecycle/test_preflight.py`."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Iterator

import pytest

from pipeline.runs import submitted_code
from tests.support.sets import slow_unless
from tests.trainer.commands import error_line

SPEC = {"chief": ["127.0.0.1:9"], "worker": ["127.0.0.1:10"], "ps": ["127.0.0.1:11"]}
SERVERS = "cluster.strategy=parameter_server"
SHORT = ("cluster.start_wait_seconds=3", "cluster.watchdog_start_seconds=15")


@dataclasses.dataclass(frozen=True)
class Row:
    """What the line has, which process of which cluster it is (a role that is missing from the
    cluster is nobody's), its settings, and the exit code. `{port}` is one that is taken."""

    words: str
    role: str = ""
    cluster: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    settings: tuple[str, ...] = (SERVERS, *SHORT)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    storage: str = ""
    code: int = 64


def said(kind: object, cluster: object = SPEC) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})}


ROWS = {
    "an image of another version": Row(
        " here, and was 0123 where the job was submitted. Build the image again with make image",
        variables={submitted_code.VARIABLE: json.dumps({"pipeline": "0123"})},
    ),
    "no cluster": Row("worker-0 has no cluster: give the addresses of all tasks", role="worker"),
    "an unknown role": Row(
        "unknown role 'wroker' (did you mean 'worker'?)", variables=said("wroker")
    ),
    "a role that is a list": Row("unknown role ['worker']", variables=said(["worker"])),
    "an address that is none": Row(
        "ps: must be a list of 'host:port', or '[IPv6]:port', got ['h']",
        variables=said("chief", {**SPEC, "ps": ["h"]}),
    ),
    "two processes at one address": Row(
        "worker-0 and ps-0 are both at 127.0.0.1:10; give each process a port of its own",
        role="ps",
        cluster={**SPEC, "ps": SPEC["worker"]},
    ),
    "a cluster of another strategy": Row(
        "cannot run with 1; use workers=0 or strategy 'multi_worker_mirrored'",
        role="chief",
        cluster=SPEC,
        settings=("cluster.strategy=none",),
    ),
    "no chief, or storage of its own": Row(
        "for 3 s. Start it, or check that its host sees the same folder under that path",
        role="worker",
        cluster=SPEC,
        code=75,
    ),
    "a port that is taken": Row(
        "address already in use. End the process that listens there, or give this one another",
        role="chief",
        cluster={"chief": ["127.0.0.1:{port}"], "ps": ["127.0.0.1:11"]},
        code=75,
    ),
    "a host that nobody knows": Row(
        "ps-0 cannot be reached at nobody.invalid:11: ",
        role="chief",
        cluster={"chief": ["127.0.0.1:{free}"], "ps": ["nobody.invalid:11"]},
        code=75,
    ),
    "a GPU that was promised": Row(
        "this machine has 2 GPUs by the config, and TensorFlow sees none. Use an image with CUDA",
        settings=(),
        variables={"PIPELINE_GPUS": "2"},
    ),
    "storage that cannot be written": Row(
        "Choose a place you can write to with STORAGE=", settings=(), storage="/dev/null/x"
    ),
    "storage of another kind": Row(
        "s3:// is not supported; use a folder or gs://", settings=(), storage="s3://b/a"
    ),
}
# Those that wait.
SLOW = ("a host that nobody knows", "no chief, or storage of its own")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    "row", [slow_unless(name not in SLOW, row) for name, row in ROWS.items()], ids=ROWS
)
def test_it_is_reported_in_one_line_and_nothing_trains(
    commands, task_flags, tmp_path, row, taken, free
):
    flags = task_flags("bad-by-hand", *row.settings, storage=row.storage or str(tmp_path))
    if row.code == 75 and row.role == "chief":
        flags = task_flags("bad-by-hand", *row.settings)  # which has records
    flags += (f"--job_name={row.role}",) if row.role else ()
    if row.cluster:
        text = json.dumps(row.cluster).replace("{port}", str(taken)).replace("{free}", str(free))
        flags += (f"--cluster_spec={text}",)
    name = commands.start("trainer.task", *flags, variables=row.variables)
    output = commands.end(name, row.code)
    assert row.words in error_line(output), output
    assert not list(tmp_path.rglob("model.ckpt*"))
