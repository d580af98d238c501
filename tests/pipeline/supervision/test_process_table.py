"""Which processes a run has, and what is left to be done about each."""

from __future__ import annotations

import pytest

from pipeline.processes.fork_client import Ended, Started
from pipeline.runs.run_folder import RunFolder
from pipeline.supervision.plan import RunSpec
from pipeline.supervision.ports import Reservation
from pipeline.supervision.process_table import GANG, ProcessTable

COUNTS = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}


class Server:
    """A fork server that starts nothing, and reports what it is told to."""

    def __init__(self):
        self.spawned, self.events, self.restarts = [], [], 0

    def spawn(self, request):
        self.spawned.append(request.name)

    def wait(self, timeout, also):
        events, self.events = self.events, []
        return events

    def restart(self):
        self.restarts += 1


class Stop:
    """A request to stop that never comes."""

    descriptor = 0

    def drain(self):
        pass


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def table(tmp_path, server):
    (tmp_path / "logs").mkdir()
    made = ProcessTable(
        RunSpec(
            run=RunFolder(str(tmp_path)),
            records="records",
            entry="module:function",
            counts=COUNTS,
            steps=9,
            logs=str(tmp_path / "logs"),
        ),
        server,
        reserve=Reservation,
    )
    yield made
    made.release_ports()


def end(table, server, name, code=0):
    server.events += [Started(name, 7), Ended(name, 7, code)]
    table.receive(0.0, Stop())


def test_all_members_but_the_evaluator_get_an_address(table):
    addresses = table.place()
    assert len(addresses) == 3
    assert [address for role in table.cluster.values() for address in role] == addresses
    assert set(table.members) == {"chief-0", "worker-0", "ps-0", "evaluator-0"}


def test_it_is_complete_once_all_but_parameter_servers_have_ended_and_each_end_is_handled(
    table, server
):
    table.place()
    table.start_due()
    assert sorted(server.spawned) == sorted(table.members)
    for name in ("chief-0", "worker-0", "evaluator-0"):
        assert not table.are_complete()
        end(table, server, name)
    assert not table.are_complete()
    assert [event.name for event in table.take_ended()] == ["chief-0", "worker-0", "evaluator-0"]
    assert table.are_complete()
    assert [member.name for member in table.list_running(GANG)] == ["ps-0"]


def test_an_evaluator_stays_when_the_others_get_new_addresses(table, server):
    before = table.place()
    table.start_due()
    evaluator = table.members["evaluator-0"]
    end(table, server, "worker-0", -9)
    table.forget_gang()
    assert set(table.place()).isdisjoint(before)
    assert table.members["evaluator-0"] is evaluator
    assert table.take_ended() == []
    assert [member.name for member in table.list_running([*GANG, "evaluator"])] == ["evaluator-0"]


def test_after_the_loss_of_the_server_those_that_had_not_ended_are_lost(table, server):
    table.place()
    table.start_due()
    end(table, server, "worker-0")
    lost = table.restart_server()
    assert [member.name for member in lost] == ["chief-0", "ps-0", "evaluator-0"]
    assert (server.restarts, table.take_ended()) == (1, [])
