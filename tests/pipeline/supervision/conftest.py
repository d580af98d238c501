"""A supervisor with fake roles."""

from __future__ import annotations

import contextlib

import pytest

from pipeline.processes.fork_client import ForkServer, StopRequest
from tests.pipeline import fake_roles
from tests.pipeline.process_help import child_environment
from tests.pipeline.supervision.stage import Stage


@pytest.fixture
def stage(tmp_path):
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(StopRequest().install())
        server = stack.enter_context(
            ForkServer(
                fake_roles.__name__,
                log=str(tmp_path / "server.log"),
                environment=child_environment(),
            )
        )
        yield Stage(tmp_path, server, stop)
