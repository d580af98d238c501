"""The server of worker processes: there while wanted, and gone with what it forked."""

from __future__ import annotations

import os

from pipeline.processes import fork_client
from preprocessing.runners import worker_server


def test_it_forks_and_ends():
    with worker_server.start(cloud=False) as server:
        server.spawn(fork_client.Spawn("one", "os:_exit", (3,), os.devnull))
        events: list[fork_client.Event] = []
        while not any(isinstance(event, fork_client.Ended) for event in events):
            events += server.wait(60)
        assert events[-1].code == 3
        pid = server.pid
    assert not os.path.exists(f"/proc/{pid}/exe")
