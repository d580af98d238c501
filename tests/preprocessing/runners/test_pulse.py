"""Signs of life of workers elsewhere."""

from __future__ import annotations

import pathlib

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


def test_a_worker_reports_itself_until_no_process_looks(tmp_path, clock):
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
    watched.end()
    wait_until(lambda: not (tmp_path / "alive").exists())


def test_a_folder_that_cannot_be_read_is_looked_at_again(tmp_path, clock, monkeypatch):
    watched = pulse.Pulse(str(tmp_path), silence=45, clock=clock)
    monkeypatch.setattr(pulse.storage, "listdir", lambda path: (_ for _ in ()).throw(OSError("no")))
    watched.check()
