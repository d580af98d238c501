"""Signs of life of workers elsewhere."""

from __future__ import annotations

import pathlib
import shutil
import threading

import pytest

from pipeline import errors
from preprocessing.runners import pulse
from tests.pipeline.process_help import wait_until


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def _raise(error):
    raise error


def sign(folder, name, text):
    (pathlib.Path(folder) / "alive" / f"worker-{name}").write_text(text)


def test_a_job_without_a_worker_ends_after_a_while(tmp_path, clock):
    watched = pulse.Pulse(str(tmp_path), start=600, clock=clock)
    clock.now += 599
    watched.check()
    clock.now += 1
    match = (
        r"^no worker has begun for 600 s\. Check that worker pools are running, that the first `pyt"
    )
    with pytest.raises(errors.RetryableError, match=match):
        watched.check()


def test_a_job_whose_workers_are_lost_ends(tmp_path, clock):
    watched = pulse.Pulse(str(tmp_path), silence=45, clock=clock)
    for beat in range(20):
        sign(tmp_path, "a-1", str(beat))
        clock.now += 40
        watched.check()
    sign(tmp_path, "b-2", "0")  # another is enough
    clock.now += 44
    watched.check()
    clock.now += 44
    watched.check()
    clock.now += 1
    with pytest.raises(
        errors.RetryableError, match=r"^all workers are lost: no sign of life for 45"
    ):
        watched.check()


def test_signs_of_an_earlier_attempt_do_not_count(tmp_path, clock):
    (tmp_path / "alive").mkdir()
    sign(tmp_path, "a-1", "0")
    watched = pulse.Pulse(str(tmp_path), silence=45, start=600, clock=clock)
    clock.now += 100
    watched.check()


def _is_reporting():
    return any(thread.name == "alive" for thread in threading.enumerate())


@pytest.mark.parametrize("writes_meanwhile", [False, True])
def test_a_worker_reports_itself_until_no_process_looks(
    tmp_path, clock, monkeypatch, writes_meanwhile
):
    """Also if the folder cannot be removed, because a sign is written into it at that moment."""
    folder = str(tmp_path)
    pulse.begin(folder, beat=0.01)  # nobody looks yet
    assert not (tmp_path / "alive").exists()
    watched = pulse.Pulse(folder, clock=clock)
    pulse.begin(folder, beat=0.01)
    pulse.begin(folder, beat=0.01)
    alive = tmp_path / "alive"
    sign = wait_until(lambda: [p for p in alive.glob("worker-*") if p.suffix != ".tmp"])[0]
    before = sign.read_text()
    wait_until(lambda: sign.read_text() != before)
    if writes_meanwhile:
        monkeypatch.setattr(shutil, "rmtree", lambda path, **options: _raise(OSError("not empty")))
    watched.end()
    wait_until(lambda: not _is_reporting())


def test_a_folder_that_cannot_be_read_is_looked_at_again(tmp_path, clock, monkeypatch):
    watched = pulse.Pulse(str(tmp_path), silence=45, clock=clock)
    monkeypatch.setattr(pulse.storage, "listdir", lambda path: _raise(OSError("no")))
    watched.check()
