"""Processes that draw the numbers of their requests from few random ones, as all do from 32 bits.

A server refuses a request whose number it knows, and the step fails or is never done.
"""

from __future__ import annotations

import sys

import pytest

from pipeline.processes import environment
from pipeline.processes.fork_client import ForkServer, StopRequest
from tests.faults import injected, witness
from tests.faults.conftest import BATCH, Rig
from tests.faults.final import Final
from tests.pipeline.process_help import child_environment
from tests.support import few_numbers
from tests.support.sets import matrix, slow


@pytest.fixture
def unlucky(tmp_path, small_records, monkeypatch):
    """A rig whose processes have few random numbers."""
    children = environment.filter_for_children(child_environment())
    log = str(tmp_path / "server.log")
    with few_numbers.make_python(tmp_path) as python, StopRequest().install() as stop:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", python)
            server = ForkServer(injected.__name__, log=log, environment=children)
        with server:
            yield Rig(tmp_path / "run", server, stop, small_records)


# In `make test`, tests/trainer/distribution/test_request_numbers.py.
@pytest.mark.parametrize(
    ("mode", "servers"),
    [
        slow("parameter_server", 2),
        matrix("parameter_server_sync", 2),
        matrix("parameter_server_strategy", 2),
        slow("multi_worker_mirrored", 0),
    ],
)
def test_no_step_fails(unlucky, mode, servers):
    settings = [f"cluster.strategy={mode}", "cluster.workers=2", "train.steps=600"]
    settings += [f"cluster.ps={servers}"] if servers else []
    result = unlucky.train(*settings, "train.save_steps=1000", *witness.SETTINGS)
    logs = "".join(path.read_text() for path in (unlucky.path / "logs").iterdir())
    assert "twice" not in logs
    assert "a new session will be created" not in logs
    assert unlucky.restarts == []
    assert result["final_step"] >= 600
    # Where the save is not waited for, each process may have a batch between update and count.
    shared = mode in ("parameter_server", "parameter_server_strategy")
    Final(unlucky).check(twice=3 * BATCH if shared else 0)
