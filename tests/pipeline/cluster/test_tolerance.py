"""Which failures are survived, how often they are logged, and for how long."""

from __future__ import annotations

import pytest

from pipeline.cluster import tolerance
from pipeline.config import config_file


def test_the_first_failure_of_a_row_is_logged_and_the_row_is_timed(capsys):
    now = [100.0]
    bearing = tolerance.Tolerance("looking", clock=lambda: now[0])
    for _ in range(3):
        with bearing.survive():
            raise OSError(5, "Input/output error")
        now[0] += 10
    assert (bearing.seconds, bearing.failure) == (30, "[Errno 5] Input/output error")
    assert capsys.readouterr().err == (
        "looking failed, trying again: [Errno 5] Input/output error\n"
    )
    with bearing.survive():
        pass
    assert bearing.seconds == 0
    with bearing.survive():
        raise KeyError
    assert capsys.readouterr().err == "looking failed, trying again: KeyError\n"


def test_what_ends_a_process_is_not_survived():
    with pytest.raises(KeyboardInterrupt), tolerance.Tolerance("looking").survive():
        raise KeyboardInterrupt


@pytest.mark.parametrize(("watchdog", "seconds"), [(120, 60), (9000, 60), (4, 2)])
def test_they_last_less_than_the_watchdog_waits(watchdog, seconds):
    job = config_file.load("mnist", [f"cluster.watchdog_seconds={watchdog}"])
    assert tolerance.patience(job.cluster) == seconds
