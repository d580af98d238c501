"""What a step touches is said, and what does not fit into memory is refused, before it starts."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.processes import memory
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from trainer import optimizers
from trainer.distribution import placement
from trainer.lifecycle.variables_hook import VariablesHook
from trainer.monitoring.status_reporter import Reporter

v1 = tf.compat.v1
PS = {"chief": ("h:1",), "ps": ("h:2", "h:3")}
# 1,000,000 rows of 16 numbers, itself and two moments, and what a save copies of them.
TABLE = 1_000_000 * 16 * 4 * 3 * 2


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


def _begin(run, cluster, name="adam", rows=1_000_000):
    """Builds a graph, of which no op runs; returns the note of the chief."""
    task = topology.Task("chief", 0, cluster)
    servers = len(cluster.get("ps", ()))
    reporter = Reporter(run, "chief-0", 10)
    with tf.Graph().as_default(), v1.device(placement.build_device_fn(task)):
        with placement.cut(servers or 1, 1000):
            table = v1.get_variable("table", [rows, 16], use_resource=True)
            found = tf.nn.embedding_lookup(table, tf.constant([1, 2]))
            loss = tf.reduce_sum(v1.layers.dense(found, 4))
            optimizers.train_op(loss, optimizers.Updates(name, 0.1))
        VariablesHook(run, task, reporter, how=name).begin()
    reporter.report("training")
    return run_folder.read_statuses(run)["chief-0"].note


def _train_with(run, needed):
    with tf.Graph().as_default(), placement.cut(2, 1000):
        for name in ("w", "cut"):
            v1.get_variable(name, [1000, 16], use_resource=True)
        v1.get_variable("b", [])
        reporter = Reporter(run, "chief-0", 10)
        task = topology.Task("chief", 0)
        VariablesHook(run, task, reporter, how="sgd", needed=lambda: needed).begin()


def test_a_variable_of_another_mode_alone_is_refused_before_the_first_step(run):
    _train_with(run, {"eval": ["w", "cut"], "infer": ["w"]})
    with pytest.raises(
        errors.UsageError,
        match=r"^model_fn in mode 'eval' has variables that mode 'train' does not have "
        r"\(late, later\), so no checkpoint has them; its variables must have the same names",
    ):
        _train_with(run, {"infer": ["b"], "eval": ["later", "w", "late"]})


def _servers(run, *memories, hosts=("a", "b")):
    for index, (size, host) in enumerate(zip(memories, hosts, strict=True)):
        status = Status(f"ps-{index}", 1, host, "serving", 0.0, memory=size)
        run_folder.write_status(run, status)


@pytest.mark.parametrize("cluster", [{}, PS])
@pytest.mark.parametrize("name", ["adam", "adagrad", "ftrl", "sgd"])
def test_what_a_step_touches(run, cluster, name):
    assert _begin(run, cluster, name, rows=1000) == (
        f"{name}: of 1 table with 1,000 rows in all (64.0 kB), a step changes only the rows its "
        "batch asks for; of the other parameters (0.3 kB) it changes all"
    ), "the size is that of the table: a batch asks for 2 rows"


def test_of_an_optimizer_that_touches_all_nothing_is_reported(run):
    assert _begin(run, {}, "dense_adam", rows=1000) is None


def test_servers_whose_memory_is_too_small_are_named_with_the_arithmetic(run):
    _servers(run, TABLE, TABLE // 2 - 1000)
    with pytest.raises(errors.UsageError) as raised:
        _begin(run, PS)
    line = str(raised.value)
    assert line.startswith(
        "ps-1 on b: the variables of the model take 96.0 MB, up to 192.0 MB while they are saved, "
        "and 192.0 MB of memory are free; "
    )
    assert (
        "'table' alone is 1,000,000 x 16 x 4 bytes x 3 (with what the optimizer remembers) = "
        "192.0 MB. Use a smaller embedding" in line
    )
    assert "\n" not in line


def test_servers_of_one_host_share_its_memory(run):
    _servers(run, TABLE - 1000, TABLE - 1000, hosts=("a", "a"))
    with pytest.raises(errors.UsageError, match="ps-0, ps-1 on a: "):
        _begin(run, PS)


@pytest.mark.parametrize(("name", "peak"), [("adam", "384.0"), ("dense_adam", "320.0")])
def test_what_a_step_changes_whole_counts_once(run, monkeypatch, name, peak):
    """Of dense Adam that is the table; its moments are changed by rows, too."""
    monkeypatch.setattr(memory, "available", lambda: 319_000_000)
    with pytest.raises(
        errors.UsageError, match=rf" take 192\.0 MB, up to {peak} MB while they are"
    ):
        _begin(run, {}, name)


def test_what_fits_or_is_not_known_is_not_refused(run):
    assert _begin(run, PS) is not None
    _servers(run, TABLE, TABLE)
    assert _begin(run, PS) is not None


def test_a_process_without_servers(run, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: TABLE - 1000)
    with pytest.raises(errors.UsageError, match="this host: the variables of the model take"):
        _begin(run, {})
