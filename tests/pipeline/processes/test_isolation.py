"""Who can reach the ports of a cluster."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest

from pipeline import errors
from pipeline.processes import isolation
from pipeline.processes.fork_client import Ended, ForkServer, Spawn
from pipeline.processes.isolation import Isolate, decide
from tests.pipeline import small_roles
from tests.pipeline.process_help import ROOT, child_environment, wait_until

IMPOSSIBLE = isolation.find_obstacle()


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


# Answers each line it reads with whether it can send something to itself.
SENDS = """
import socket, sys
from pipeline.processes import isolation
isolation.enter()
print("ready", flush=True)
for _ in sys.stdin:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        own.settimeout(0.5)
        try:
            own.sendto(b"x", own.getsockname())
            own.recv(1)
            print("sent", flush=True)
        except OSError:
            print("lost", flush=True)
"""


@pytest.mark.skipif(IMPOSSIBLE is not None, reason=f"no network namespaces: {IMPOSSIBLE}")
def test_the_network_of_a_process_is_taken_down_and_up_again():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", SENDS], env=child_environment(), text=True, **pipes
    ) as process:

        def ask():
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        assert process.stdout.readline() == "ready\n"
        assert isolation.is_isolated(process.pid)
        assert ask() == "sent"
        isolation.set_loopback_of(process.pid, up=False)
        assert ask() == "lost"
        isolation.set_loopback_of(process.pid, up=True)
        assert ask() == "sent"
        process.stdin.close()


def test_the_network_of_this_machine_is_never_taken_down():
    with pytest.raises(OSError, match="it shares the network of this machine"):
        isolation.set_loopback_of(os.getpid(), up=False)


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="only root can give rights away"
)
@pytest.mark.parametrize(
    ("asked", "what"), [("find_obstacle", "network"), ("find_mounts_obstacle", "mount")]
)
def test_root_without_its_capabilities_knows_what_it_may_not_have(asked, what):
    code = f"from pipeline.processes import isolation; print(isolation.{asked}())"
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == f"the system permits no {what} namespaces\n"
