"""What the chief reads of the speed of others."""

from __future__ import annotations

from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from trainer.monitoring.peers import Peers

CLUSTER = {"chief": ("h:1",), "worker": ("h:2", "h:3"), "ps": ("h:4",)}


def test_rates_of_others_that_train_now_and_then(tmp_path):
    run, now = RunFolder(str(tmp_path)), [0.0]
    peers = Peers(run, topology.Task("chief", 0, CLUSTER), clock=lambda: now[0])
    for task, rate in (("chief-0", 1.0), ("worker-0", 2.0), ("worker-1", None), ("ps-0", 4.0)):
        status = Status(task, 1, "h", "training", 0.0, examples_per_second=rate)
        run_folder.write_status(run, status)
    assert peers.read_rates() == {}
    assert peers.read_rates(now=True) == {"worker-0": 2.0}
    now[0] = 31.0
    assert peers.read_rates() == {"worker-0": 2.0}
    assert peers.read_rates() == {}


def test_a_single_process_has_none(tmp_path):
    peers = Peers(RunFolder(str(tmp_path)), topology.Task("chief", 0))
    assert peers.read_rates(now=True) == {}
