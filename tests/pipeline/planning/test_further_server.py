"""What each further server costs a step, measured by real processes."""

from __future__ import annotations

import sys

import pytest

from pipeline import errors
from pipeline.planning import further_server


def test_a_step_of_two_servers_takes_more_of_processors_than_of_one():
    found = further_server.measure()
    assert 0 < found.server < 0.1
    assert 0 <= found.worker < 0.1


def test_a_failed_measurement_is_a_one_line_error(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no TensorFlow here >&2\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(errors.RetryableError) as caught:
        further_server.measure()
    assert str(caught.value) == "calibration: steps of 2 servers failed: no TensorFlow here"
