"""Why the process of a trial has ended, from its exit and the log that it shares with others."""

from __future__ import annotations

import os
import signal

import pytest

from pipeline.tuning.trial_process import TrialProcess


def test_a_killed_process_is_not_told_by_what_was_printed_before(tmp_path):
    log = tmp_path / "trial.log"
    log.write_text("error: of the time before\n")
    process = TrialProcess(["--config=mnist", f"--storage={tmp_path}"], str(log))
    os.kill(process._process.pid, signal.SIGKILL)
    process.kill()
    assert process.poll() == -signal.SIGKILL
    assert process.error().startswith("killed by SIGKILL")


@pytest.mark.parametrize("config", ["nowhere", ""])
def test_its_own_error_is_reported(tmp_path, config):
    log = tmp_path / "trial.log"
    log.write_text("error: of the time before\n")
    process = TrialProcess([f"--config={config}"], str(log))
    assert process._process.wait(60) == 64
    assert process.error().startswith("config '")
