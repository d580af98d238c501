"""The process that answers for exported models: started, asked, lost."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from pipeline import errors
from tests.pipeline.process_help import is_alive, wait_until
from trainer.export import parity_client


@pytest.fixture
def server():
    started = parity_client.ParityServer()
    yield started
    started.close()


def _request(folder):
    named = {name: str(folder / name) for name in ("export", "rows", "answers")}
    return {**named, "batches": [1], "calls_before": 0, "missing": {}}


def test_batches_hold_all_rows():
    assert parity_client.list_batch_sizes(7, 3) == [3, 3, 1]
    assert parity_client.list_batch_sizes(6, 3) == [3, 3]
    assert parity_client.list_batch_sizes(0, 3) == []


def test_what_cannot_be_loaded_is_the_model_s_fault_and_the_next_is_answered(server, tmp_path):
    for _ in range(2):
        with pytest.raises(errors.ModelError, match=r"export '.*': cannot be served \(FileNotF"):
            server.ask(_request(tmp_path))
    assert server.lives


def test_a_process_that_is_lost_is_reported_and_replaced(tmp_path):
    first = parity_client.get_shared_server()
    assert parity_client.get_shared_server() is first
    os.kill(first.pid, signal.SIGKILL)
    with pytest.raises(errors.RetryableError, match="checks exports ended with -9"):
        first.ask(_request(tmp_path))
    assert parity_client.get_shared_server() is not first


def test_an_interrupted_request_leaves_no_reply_for_the_next(server, tmp_path):
    os.kill(server.pid, signal.SIGSTOP)
    me = threading.main_thread().ident
    threading.Timer(0.2, signal.pthread_kill, (me, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        server.ask(_request(tmp_path / "first"))
    assert not server.lives


def test_it_ends_with_who_asks(server):
    pid = server.pid
    server.close()
    wait_until(lambda: not is_alive(pid))


def test_each_of_several_requests_gets_its_own_reply(server, tmp_path):
    waits = [server.begin(_request(tmp_path / name)) for name in ("a", "b", "c")]
    for number in (2, 0, 1):
        with pytest.raises(errors.ModelError, match=f"/{'abc'[number]}"):
            waits[number]()
    assert server.lives
