import random
import socket

import pytest

from pipeline import errors
from pipeline.supervision import ports
from pipeline.supervision.ports import Reservation


def test_ports_are_different_free_and_below_those_of_outgoing_connections():
    with Reservation(20) as reservation:
        assert len(set(reservation.ports)) == 20
        for port in reservation.ports:
            assert 10240 <= port < ports.find_first_ephemeral()
            with socket.socket() as listener:
                listener.bind(("", port))


def test_addresses_are_of_this_machine():
    with Reservation(1) as reservation:
        assert reservation.addresses == [f"127.0.0.1:{reservation.ports[0]}"]


def test_two_launchers_never_get_the_same_port(tmp_path):
    # Equal random numbers offer both the same candidates.
    with (
        Reservation(3, rng=random.Random(1), folder=str(tmp_path)) as first,
        Reservation(3, rng=random.Random(1), folder=str(tmp_path)) as second,
    ):
        assert set(first.ports).isdisjoint(second.ports)


def test_released_ports_can_be_had_again(tmp_path):
    with Reservation(3, rng=random.Random(1), folder=str(tmp_path)) as first:
        before = list(first.ports)
    with Reservation(3, rng=random.Random(1), folder=str(tmp_path)) as second:
        assert second.ports == before


def test_a_port_that_someone_listens_on_is_passed_over(tmp_path):
    with Reservation(1, rng=random.Random(1), folder=str(tmp_path)) as probe:
        taken = probe.ports[0]
    with socket.socket() as occupant:
        occupant.bind(("", taken))
        with Reservation(1, rng=random.Random(1), folder=str(tmp_path)) as reservation:
            assert reservation.ports != [taken]


def test_who_cannot_be_reached_is_reported_with_the_reason():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ports.is_taken(port)
        assert ports.refusal(f"127.0.0.1:{port}") == ""
    assert not ports.is_taken(port)
    assert ports.refusal(f"127.0.0.1:{port}") == "Connection refused"
    assert ports.refusal("[::1]:1") and ports.refusal("nobody.invalid:1")
    assert ports.refusal("no address") == ""
    assert ports.refusal("two..dots:1") and ports.refusal(f"127.0.0.1:{10**20}")


class Stuck(random.Random):
    def randint(self, low, high):
        return 20000


def test_a_machine_without_free_ports_is_reported(tmp_path):
    with pytest.raises(errors.RetryableError, match=r"^cannot find 2 free ports between 10240 and"):
        Reservation(2, rng=Stuck(), folder=str(tmp_path))


def test_an_unwritable_lock_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UsageError, match=r"^cannot lock a port in .* with TMPDIR=\.$"):
        Reservation(1, folder=str(tmp_path / "file" / "locks"))
