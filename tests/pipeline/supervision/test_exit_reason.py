"""Why a process ended, in one line."""

from __future__ import annotations

import signal

import pytest

from pipeline.processes import memory
from pipeline.runs.run_folder import Status
from pipeline.supervision import exit_reason

OUTSIDE = "from outside (by a person, a scheduler, or the kernel for lack of memory)"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("the loss is nan at step 7", "the loss is nan at step 7"),
        ("stopped. Run the same command to resume.", "stopped"),
        ("stopped, saved at step 7. Run the same command to resume.", "stopped, saved at step 7"),
        ("no space. Free some and run the same command again to resume.", None),
    ],
)
def test_what_a_process_said_itself_comes_first(error, cause):
    """Without what is for those who have started it by hand."""
    status = Status("ps-0", 7, "h", "stopped", 1.5, error=error)
    assert exit_reason.cause(status, 75, ["error: another"]) == (cause or error)


@pytest.mark.parametrize(
    ("code", "lines", "cause"),
    [
        (-signal.SIGKILL, ["a line"], f"killed by SIGKILL {OUTSIDE}"),
        (-signal.SIGTERM, [], "killed by SIGTERM"),
        (64, ["error: no such file", "a line after it"], "no such file"),
        (1, ["a line", "ValueError: 3"], "ValueError: 3"),
        (1, [], "ended with exit code 1"),
        (1, ["2026-11-26 18:47:49,873 I Calling model_fn."], "ended with exit code 1"),
        (1, ["2026-11-26 18:47:49.873123: W tensorflow/core"], "ended with exit code 1"),
        (1, ["2026-11-26 18:47:49,873 E it broke"], "2026-11-26 18:47:49,873 E it broke"),
        (9, ["Calling model_fn."], "ended with exit code 9"),
        (9, ["error: no licence", "a line"], "no licence"),
    ],
)
def test_else_what_ended_it_or_its_log_tells(code, lines, cause):
    assert exit_reason.cause(None, code, lines) == cause


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (4, 5, "(probably by the kernel for lack of memory)"),
        (4, 4, OUTSIDE),
        (None, 5, OUTSIDE),
        (4, None, OUTSIDE),
    ],
)
def test_memory_was_short_if_the_kernel_has_killed_meanwhile(monkeypatch, before, now, told):
    monkeypatch.setattr(memory, "count_kills", lambda: now)
    for code, cause in ((-signal.SIGKILL, f"killed by SIGKILL {told}"), (-15, "killed by SIGTERM")):
        assert exit_reason.cause(None, code, [], kills_before=before) == cause


def test_a_log_is_read_from_where_this_attempt_began(tmp_path):
    log = tmp_path / "ps-0.log"
    log.write_text("earlier\n")
    start = log.stat().st_size
    log.write_text("earlier\nnow\n\nlast  \n")
    assert exit_reason.tail(str(log), start) == ["now", "last"]
    assert exit_reason.tail(str(tmp_path / "absent"), 0) == []
