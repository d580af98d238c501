"""Who can reach the ports of a cluster."""

from __future__ import annotations

import socket

import pytest

from pipeline import errors
from pipeline.processes import isolation
from pipeline.processes.fork_client import Ended, ForkServer, Spawn
from pipeline.processes.isolation import Isolate, decide
from tests.pipeline import small_roles
from tests.pipeline.process_help import child_environment, wait_until

IMPOSSIBLE = isolation.why_not()


def test_auto_isolates_where_the_system_lets_it():
    decision = decide(Isolate.AUTO, remote=False, why_not=lambda: None)
    assert decision.isolated
    assert decision.line == "network: the cluster's own; its ports are closed to the outside"


@pytest.mark.parametrize(
    ("remote", "problem", "said"),
    [(True, None, "its storage is remote"), (False, "not permitted", "not permitted")],
)
def test_where_it_cannot_auto_shares_and_on_refuses(remote, problem, said):
    decision = decide(Isolate.AUTO, remote=remote, why_not=lambda: problem)
    assert not decision.isolated
    assert decision.line == f"network: shared with this machine ({said})"
    with pytest.raises(errors.UsageError, match=f"--isolate=on: cannot be done here: {said}"):
        decide(Isolate.ON, remote=remote, why_not=lambda: problem)


def test_the_note_names_the_ports_that_are_open():
    assert isolation.note(["127.0.0.1:10240", "[::1]:2222"]) == (
        "note: TensorFlow's servers let in anyone who reaches their ports (10240, 2222 on all "
        "addresses of this machine); keep them behind a firewall"
    )


def test_off_does_not_even_try():
    def fail():
        raise AssertionError("tried")

    assert not decide(Isolate.OFF, remote=False, why_not=fail).isolated


@pytest.mark.skipif(IMPOSSIBLE is not None, reason=f"no network namespaces: {IMPOSSIBLE}")
@pytest.mark.parametrize("isolated", [True, False])
def test_only_processes_of_the_cluster_reach_its_ports(tmp_path, isolated):
    environment = child_environment()
    log = str(tmp_path / "log")
    with ForkServer(
        small_roles.__name__, log=log, environment=environment, isolated=isolated
    ) as server:
        note = tmp_path / "port"
        server.spawn(Spawn("server", f"{small_roles.__name__}:listen", (str(note),), log))
        port = int(wait_until(lambda: note.exists() and note.read_text()))
        server.spawn(Spawn("client", f"{small_roles.__name__}:call", (port,), log))
        ended = []
        wait_until(
            lambda: ended.extend(e for e in server.wait(0.1) if isinstance(e, Ended)) or ended
        )
        assert [(event.name, event.code) for event in ended] == [("client", 0)]
        with socket.socket() as outside:
            assert (outside.connect_ex(("127.0.0.1", port)) == 0) is not isolated
