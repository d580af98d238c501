"""How fast each process was over time is kept, in a file that does not grow without end."""

from __future__ import annotations

import dataclasses

import pytest

from pipeline.runs import history
from pipeline.runs.run_folder import RunFolder, Status


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


def _statuses(step, rate=100.0):
    one = Status("chief-0", 1, "here", "training", 5.0, step=step, examples_per_second=rate)
    return {"chief-0": one, "ps-0": Status("ps-0", 2, "here", "serving", 5.0)}


def test_samples_are_taken_once_an_interval(run):
    now = [1000.0]
    recorder = history.Recorder(run, clock=lambda: now[0])
    for second in range(31):
        now[0] = 1000.0 + second
        recorder.see(_statuses(second))
    found = history.read(run)
    assert [sample.time for sample in found.samples] == [1000, 1010, 1020, 1030]
    assert found.samples[1].tasks == {"chief-0": (10, 100.0)}


def test_a_process_that_begins_to_train_has_a_sample_at_once(run):
    now = [1000.0]
    recorder = history.Recorder(run, clock=lambda: now[0])
    for second in range(8):
        now[0] = 1000.0 + second
        said = _statuses(second)
        if second >= 3:
            said["worker-0"] = dataclasses.replace(said["chief-0"], task="worker-0")
        recorder.see(said)
    found = history.read(run).samples
    assert [(one.time, len(one.tasks)) for one in found] == [(1000, 1), (1003, 2)]


def test_nothing_is_kept_of_what_does_not_train(run):
    history.Recorder(run).see({"ps-0": _statuses(1)["ps-0"]})
    assert history.read(run) is None


def test_old_samples_become_fewer(run):
    now = [0.0]
    recorder = history.Recorder(run, clock=lambda: now[0], most=20)
    for n in range(400):
        now[0] = 1000 + 10.0 * n
        recorder.see(_statuses(n))
    found = history.read(run)
    assert 10 <= len(found.samples) <= 20
    assert found.samples[0].time == 1000 and found.interval > 100
    times = [sample.time for sample in found.samples]
    assert times == sorted(times) and times[-1] > now[0] - 2 * found.interval


def test_another_launch_continues_the_history(run):
    for start in (1000.0, 5000.0):
        history.Recorder(run, clock=lambda start=start: start).see(_statuses(1))
    assert [sample.time for sample in history.read(run).samples] == [1000, 5000]


def test_a_clock_that_is_set_back_does_not_end_it(run):
    now = [1000.0]
    recorder = history.Recorder(run, clock=lambda: now[0])
    recorder.see(_statuses(1))
    now[0] = 500.0
    recorder.see(_statuses(2))
    assert len(history.read(run).samples) == 2


def test_what_cannot_be_written_or_read_is_left_out(run, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write", refuse)
    history.Recorder(run).see(_statuses(1))
    (tmp_path / "history.json").write_text("[1]")
    assert history.read(run) is None


def _rates(run, *, step_at):
    """The rates that are kept of a process whose step at each second is known."""
    now = [0.0]
    recorder = history.Recorder(run, clock=lambda: now[0])
    for second in range(1, 62):
        now[0] = 1000.0 + second
        recorder.see(_statuses(step_at(second)))
    return [sample.tasks["chief-0"][1] for sample in history.read(run).samples]


def test_a_suspended_process_has_no_rate(run):
    # Stopped for 15 s: its last word says how fast it was.
    rates = _rates(run, step_at=lambda second: second if second < 25 else max(24, second - 15))
    assert rates == [100, 100, 100, 0, 100, 100, 100]


def test_who_takes_long_for_a_step_does_not_stand_still(run):
    assert _rates(run, step_at=lambda second: second // 15) == [100] * 7
