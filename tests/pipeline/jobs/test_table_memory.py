"""Tables that are larger than memory are refused before a process starts, with the arithmetic."""

from __future__ import annotations

import re

import pytest

from pipeline import errors
from pipeline.jobs import table_memory
from pipeline.jobs.job import Job
from pipeline.jobs.table_memory import Room
from pipeline.launchers import base
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.feature_tables import contents, make
from tests.support import commands

FEATURES = {
    "tail": {"steps": [{"hash": {"buckets": 1_000_000}}], "embedding": 16},
    "carrier": {"steps": ["vocabulary"], "embedding": 4},
}
SERVERS = {"strategy": "parameter_server", "ps": 4}
# A million rows of 16 numbers, of which a process takes so many times as much with adam.
TABLE = 1_000_000 * 16 * 4
ADAM = 8


def _job(cluster=None, optimizer=None, **sections):
    train = {"steps": 1, "optimizer": optimizer or {}}
    return make(
        FEATURES, {"threshold": 1}, model={"name": "dnn"}, train=train, cluster=cluster or SERVERS,
        **sections,
    )  # fmt: skip


def _refused(job, room, found=None):
    with pytest.raises(errors.UsageError) as raised:
        table_memory.check(job, room, found)
    line = str(raised.value)
    assert "\n" not in line
    return line


def test_the_arithmetic_is_in_one_line():
    assert _refused(_job(), Room(ADAM * TABLE / 4 - 1, "x is 127M")) == (
        "features.tail: its table takes 1,000,000 x 16 x 4 bytes x 3 (with what adam remembers) = "
        "192.0 MB; each of the 4 servers would hold 48.0 MB of tables and take up to 128.0 MB "
        "while they are saved, and x is 127M. Use a smaller embedding, fewer ids (buckets of hash, "
        "top_k of a vocabulary), train.optimizer.name=sgd, which remembers nothing, or more "
        "servers (cluster.ps) on other hosts"
    )


def test_one_host_holds_all_servers_and_the_evaluator():
    needed = (ADAM + 3) * TABLE
    line = _refused(_job(), Room(needed - 1, "little is free", each=False))
    assert (
        "; the 4 servers would hold 192.0 MB of tables and take up to 512.0 MB while they are "
        "saved and evaluation 192.0 MB, and little is free. "
    ) in line
    table_memory.check(_job(), Room(needed, "x", each=False), None)


def test_a_process_without_others_evaluates_in_what_it_has():
    job = _job({"strategy": "none"})
    line = _refused(job, Room((ADAM + 1) * TABLE - 1, "x", each=False))
    assert "the process would hold 192.0 MB of tables and take up to 512.0 MB while they ar" in line
    assert "saved and evaluation 64.0 MB, and x." in line
    table_memory.check(job, Room((ADAM + 1) * TABLE, "x", each=False), None)


@pytest.mark.parametrize(
    ("cluster", "optimizer", "needed", "words"),
    [
        (SERVERS, {"name": "sgd"}, 2 * TABLE / 4, "x 4 bytes = 64.0 MB; each of the 4 servers"),
        (SERVERS, {"name": "ftrl"}, 8 * TABLE / 4, r"x 3 \(with what ftrl remembers\) = 192\.0 MB"),
        ({**SERVERS, "ps": 1}, {"name": "adagrad"}, 6 * TABLE, "x 2 .*; the server would hold"),
        (
            {**SERVERS, "partition_bytes": 1 << 30},
            {},
            ADAM * TABLE,
            "the 4 servers would hold 192.0 MB",
        ),
        (
            {"strategy": "parameter_server_strategy", "ps": 2},
            {},
            ADAM * TABLE,
            "each of the 2 servers",
        ),
        (
            {"strategy": "none"},
            {},
            ADAM * TABLE,
            "the process would hold 192.0 MB .* or parameter serv",
        ),
        (
            {"strategy": "multi_worker_mirrored", "workers": 2},
            {},
            ADAM * TABLE,
            "each of the 3 processes",
        ),
        (
            {"strategy": "mirrored", "replicas": 3},
            {},
            3 * ADAM * TABLE,
            "the process would hold 576.0 MB",
        ),
    ],
)
def test_what_is_needed(cluster, optimizer, needed, words):
    job = _job(cluster, optimizer)
    line = _refused(job, Room(needed - 1, "x"))
    assert re.search(words, line), line
    table_memory.check(job, Room(needed, "x"), None)


HOT = {"tail": {"steps": [{"hash": {"buckets": 60_000}}], "embedding": "one_hot"}}
# Of each of three cross layers, and of the first hidden one.
CROSS, HIDDEN = 60_000 * 60_000 * 4, 60_000 * 128 * 4


def _of_one_hot(cluster, **sections):
    model = {"name": "dcn"}
    return make(HOT, {"threshold": 1}, model=model, cluster=cluster, **sections)


def test_layers_that_get_one_hot_count():
    job = _of_one_hot({"strategy": "none"})
    # With what adam remembers, and a gradient; the process that compares exports has them, too.
    needed = (4 + 1) * (3 * CROSS + HIDDEN)
    assert _refused(job, Room(needed - 1, "x is 19G", each=False)) == (
        "features.tail: one_hot makes a layer take at least 60,000 x 60,000 x 4 bytes x 3 (with "
        "what adam remembers) = 43,200.0 MB, 3 of them; the process would hold 129,692.2 MB of "
        "tables and layers and take up to 172,922.9 MB while they are saved and evaluation "
        "43,230.7 MB, and x is 19G. Use an embedding with a width, fewer ids (buckets of hash, "
        "top_k of a vocabulary), train.optimizer.name=sgd, which remembers nothing, or parameter "
        "servers (cluster.strategy=parameter_server) on other hosts"
    )
    table_memory.check(job, Room(needed, "x", each=False), None)


def test_servers_compute_no_gradients():
    job = _of_one_hot({"strategy": "parameter_server", "ps": 1})
    needed = 3 * (3 * CROSS + HIDDEN)
    assert "the server would hold 129,692.2 MB" in _refused(job, Room(needed - 1, "x"))
    table_memory.check(job, Room(needed, "x"), None)


def test_places_in_lists_count():
    seen = {"type": "string", "list": True, "max_items": 60_000_000}
    embedding = {"size": 16, "position": True}
    features = {"seen": {"steps": ["vocabulary"], "embedding": embedding}}
    job = make(features, {"threshold": 1}, {"seen": seen}, model={"name": "dnn"}, cluster=SERVERS)
    line = _refused(job, Room(8 * 60_000_000 * 16 - 1, "x is 7G"))
    assert line.startswith(
        "features.seen: its positions take 60,000,000 x 16 x 4 bytes x 3 (with what adam remembers)"
        " = 11,520.0 MB; each of the 4 servers would hold 2,880.0 MB of tables and take up to"
    )
    assert "Use a smaller max_items, a smaller embedding, train.opt" in line


def test_processes_of_one_host_each_have_all_tables():
    job = _job({"strategy": "multi_worker_mirrored", "workers": 2})
    room = Room((3 * ADAM + 3) * TABLE - 1, "x", False)
    assert "the 3 processes would hold 576.0 MB" in _refused(job, room)


def test_what_follows_from_the_data_counts_once_it_is_known():
    job = _job({"strategy": "none"}, {"name": "sgd"})
    table_memory.check(job, Room(2 * TABLE, "x"), None)
    assert "would hold 64.0 MB" in _refused(job, Room(2 * TABLE, "x"), contents(job))
    table_memory.check(job, None, contents(job))


@pytest.mark.parametrize(
    ("place", "sections", "wanted"),
    [
        ("k8s", {}, Room(4 << 30, "k8s.resources.ps.memory is 4Gi")),
        (
            "k8s",
            {"k8s": {"resources": {"ps": {"memory": "500M"}}}},
            Room(5e8, "k8s.resources.ps.memory is 500M"),
        ),
        ("slurm", {}, None),
        ("slurm", {"slurm": {"memory_gb": 2}}, Room(2 << 30, "slurm.memory_gb is 2")),
        (
            "slurm",
            {"slurm": {"memory_gb": 2, "nodes": 1}},
            Room(2 << 30, "slurm.memory_gb is 2", each=False),
        ),
        (
            "gcp",
            {"gcp": {"machines": {"ps": {"type": "n2-highmem-2"}}}},
            Room(16 << 30, "gcp.machines.ps.type n2-highmem-2 has at most 17,179.9 MB"),
        ),
        ("gcp", {"gcp": {"machines": {"ps": {"type": "a2-highgpu-1g"}}}}, None),
    ],
)
def test_what_places_have_room_for(tmp_path, place, sections, wanted):
    job = Job(_job(**sections), "r", str(tmp_path), RunFolder(str(tmp_path)), str(tmp_path))
    assert base.choose(place).room(job) == wanted


CONFIG = """
name: huge
data:
  source: csv
  inputs: {{train: {{files: rows.csv}}}}
  columns: {{tags: {{type: string, list: true, max_items: 3}}, y: {{type: int64, allowed: [0, 1]}}}}
  label: y
features: {{tags: {{steps: [{{hash: {{buckets: {buckets}}}}}], embedding: {{size: 16}}}}}}
model: {{name: dnn}}
train: {{steps: 1}}
cluster: {{strategy: parameter_server, ps: 2}}
k8s: {{image: "registry.example/image:1", pvc: "shared"}}
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            (),
            "; the 2 servers would hold 192,000,000.0 MB of tables and take up to 512,000,000.0 MB",
        ),
        (("--cluster=k8s", "--dry_run"), "and k8s.resources.ps.memory is 4Gi. "),
    ],
)
def test_no_process_starts_and_nothing_is_written(tmp_path, arguments, words):
    (tmp_path / "huge.yaml").write_text(CONFIG.format(buckets=10**12))
    storage = tmp_path / "storage"
    done = commands.run_pipeline(
        "train", "--config=huge.yaml", f"--storage={storage}", *arguments, cwd=tmp_path
    )
    line = commands.read_error_line(done)
    assert line.startswith(
        "error: features.tags: its table takes 1,000,000,000,000 x 16 x 4 bytes x 3"
    )
    assert words in line
    assert not storage.exists()
