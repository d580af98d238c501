"""Worker processes do what the runner asks, and are missed when they are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from pipeline import errors
from preprocessing.runners import error_transport, process_runner
from preprocessing.runners.process_runner import ProcessRunner
from tests.pipeline.process_help import is_alive, wait_until
from tests.support.sets import slow


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


def _run(dofn: beam.DoFn, **how: Any) -> None:
    options = PipelineOptions([])
    options.view_as(DirectOptions).direct_num_workers = 2
    pipeline = beam.Pipeline(ProcessRunner(**how), options)
    _ = pipeline | beam.Create(range(6)) | beam.Reshuffle() | beam.ParDo(dofn)
    pipeline.run().wait_until_finish()


def test_two_processes_share_the_work_and_end_in_order(tmp_path):
    _run(Note(str(tmp_path)))
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
    _run(Note(str(tmp_path)))
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
        _run(Die())
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.timeout(60)
def test_a_process_that_is_lost_before_it_connects_is_not_waited_for():
    """Beam itself waits for it for ever."""
    with pytest.raises(errors.RetryableError, match=r"a worker process was lost: exit code 3\."):
        _run(Die(), command=lambda _: "exit 3")


def test_what_a_dofn_raises_is_not_taken_for_a_loss():
    with pytest.raises(RuntimeError, match="division by zero"):
        _run(Divide())


class Divide(beam.DoFn):
    """Fails, but does not die."""

    def process(self, element: int) -> None:
        raise ZeroDivisionError("division by zero")


class WorkOrFail(beam.DoFn):
    """The first process works for longer than anybody waits; the other fails meanwhile."""

    def __init__(self, folder: str) -> None:
        self._works = os.path.join(folder, "works")

    def process(self, element: int) -> None:
        try:
            os.mkdir(self._works)
        except FileExistsError:
            with error_transport.carry_errors("of a test"):
                raise errors.DataError("a row is wrong") from None
        time.sleep(600)


def test_the_error_of_a_worker_is_raised_though_beam_waits_for_another():
    """It asks them in turn, and one that has been ended may never answer."""
    outcome = process_runner.PipelineOutcome()
    threading.Thread(target=outcome.fail_after_grace, args=("a row is wrong",), daemon=True).start()
    with pytest.raises(RuntimeError, match="a row is wrong"):
        outcome.result(60)


@pytest.mark.timeout(60)
def test_after_an_error_no_process_waits_for_the_work_of_others(tmp_path):
    with pytest.raises(Exception, match="a row is wrong"):
        _run(WorkOrFail(str(tmp_path)), grace=0.5)


class Count(beam.DoFn):
    """Notes its process, and works until it is ended."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element: int) -> None:
        open(os.path.join(self._folder, str(os.getpid())), "w").close()
        time.sleep(600)


_DRIVER = """\
import sys
from tests.preprocessing.runners import test_process_runner as tests
tests._run(tests.Count(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [slow(signal.SIGINT), signal.SIGKILL])
def test_the_workers_end_with_the_process_that_has_them(tmp_path, number):
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER, str(tmp_path)])
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    driver.send_signal(number)
    assert driver.wait(60)
    wait_until(lambda: not any(is_alive(int(path.name)) for path in tmp_path.iterdir()))
