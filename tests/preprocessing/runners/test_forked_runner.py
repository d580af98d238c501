"""Worker processes do what the runner asks, and are missed when they are gone."""

from __future__ import annotations

import os
import signal
import threading

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from pipeline import errors
from preprocessing.runners import worker_server
from preprocessing.runners.forked_runner import ForkingRunner


class Note(beam.DoFn):
    """Leaves a file that names the process and, when it is told to, a farewell."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element: int) -> None:
        open(os.path.join(self._folder, f"{os.getpid()}-{element}"), "w").close()

    def teardown(self) -> None:
        open(os.path.join(self._folder, f"bye-{os.getpid()}"), "w").close()


class Die(beam.DoFn):
    """Ends its process in the middle of a bundle, as the system does when memory is short."""

    def process(self, element: int) -> None:
        if element == 3:
            os.kill(os.getpid(), signal.SIGKILL)


def _run(dofn: beam.DoFn, runner: ForkingRunner) -> None:
    options = PipelineOptions([])
    options.view_as(DirectOptions).direct_num_workers = 2
    pipeline = beam.Pipeline(runner, options)
    _ = pipeline | beam.Create(range(6)) | beam.Reshuffle() | beam.ParDo(dofn)
    pipeline.run().wait_until_finish()


def test_two_processes_share_the_work_and_end_in_order(tmp_path):
    with worker_server.start() as server:
        _run(Note(str(tmp_path)), ForkingRunner(server))
    names = sorted(path.name for path in tmp_path.iterdir())
    done = [name.split("-") for name in names if not name.startswith("bye")]
    assert sorted(int(element) for _, element in done) == list(range(6))
    pids = {pid for pid, _ in done}
    assert len(pids) == 2 and str(os.getpid()) not in pids
    assert {name for name in names if name.startswith("bye")} == {f"bye-{pid}" for pid in pids}


def _fail(error: Exception) -> None:
    raise error


def test_a_stream_that_ends_late_is_no_news_and_other_failures_are(tmp_path, capfd, monkeypatch):
    """Beam's thread that reads from a worker may find its end after the pipeline."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)  # pytest's keeps all
    with worker_server.start() as server:
        _run(Note(str(tmp_path)), ForkingRunner(server))
    for error in (grpc.RpcError("stream removed"), ValueError("of one's own")):
        thread = threading.Thread(target=_fail, args=(error,))
        thread.start()
        thread.join()
    told = capfd.readouterr().err
    assert "of one's own" in told and "stream removed" not in told


def test_a_process_that_is_lost_is_reported_in_a_line(capfd):
    with pytest.raises(
        errors.RetryableError, match=r"a worker process was lost: killed by SIGKILL\. If the system"
    ):
        _run(Die(), ForkingRunner())
    assert "Traceback" not in capfd.readouterr().err


def test_what_a_dofn_raises_is_not_taken_for_a_loss():
    with pytest.raises(RuntimeError, match="division by zero"):
        _run(Divide(), ForkingRunner())


class Divide(beam.DoFn):
    """Fails, but does not die."""

    def process(self, element: int) -> None:
        raise ZeroDivisionError("division by zero")
