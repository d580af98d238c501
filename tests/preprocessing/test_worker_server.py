"""The server of worker processes: there while wanted, and gone with what it forked."""

from __future__ import annotations

import os

from pipeline import processes
from preprocessing import worker_server


def test_it_forks_and_ends():
    with worker_server.start(cloud=False) as server:
        server.spawn(processes.Spawn("one", "os:_exit", (3,), os.devnull))
        events: list[processes.Event] = []
        while not any(isinstance(event, processes.Ended) for event in events):
            events += server.wait(60)
        assert events[-1].code == 3
        pid = server.pid
    assert not os.path.exists(f"/proc/{pid}/exe")
