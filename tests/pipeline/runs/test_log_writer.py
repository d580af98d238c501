import contextlib
import io
import subprocess
import sys

import pytest

from pipeline import storage
from pipeline.runs import log_writer
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import ROOT

# A process that says something, and ends as SCRIPT says.
SAYING = """
import sys, traceback
from pipeline.runs import log_writer
from pipeline.runs.run_folder import RunFolder
log_writer.keep(RunFolder(sys.argv[1]), "chief-0")
print("to standard output")
print("to standard error", file=sys.stderr)
"""


def say(run: str, ending: str = "", environment=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", SAYING + ending, run],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_what_is_said_goes_both_ways_until_the_very_end(tmp_path):
    done = say(str(tmp_path), "raise ValueError('of an error')")
    assert done.stdout == "to standard output\n"
    assert done.stderr.startswith("to standard error\nTraceback")
    kept = (tmp_path / "logs" / "chief-0.log").read_text()
    assert kept.startswith("to standard output\nto standard error\nTraceback")
    assert kept.endswith("ValueError: of an error\n")


def test_a_full_disk_costs_no_more_than_the_log(tmp_path):
    log = tmp_path / "logs" / "chief-0.log"
    log.parent.mkdir()
    log.symlink_to("/dev/full")
    done = say(str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "to standard output\n",
        "to standard error\n",
    )


def test_a_restart_appends_to_the_same_log(tmp_path):
    say(str(tmp_path))
    say(str(tmp_path))
    assert (tmp_path / "logs" / "chief-0.log").read_text().count("to standard output") == 2


def test_on_gs_it_is_there_at_the_end_and_over_restarts(cloud):
    for _ in range(2):
        done = say(cloud.path("r"), environment=cloud.environment)
        assert done.returncode == 0, done.stderr
    assert cloud.data("r/logs/chief-0.log").decode().count("to standard error") == 2


def test_a_process_that_ends_abruptly_can_bring_it_up_to_date(cloud):
    ending = "import os; log_writer.copy_now(); os._exit(3)"
    assert say(cloud.path("r"), ending, cloud.environment).returncode == 3
    assert cloud.data("r/logs/chief-0.log") == b"to standard output\nto standard error\n"


def test_there_may_be_nothing_to_bring_up_to_date():
    assert log_writer.copy_now() is None


def test_a_log_that_cannot_be_copied_is_no_failure(cloud):
    run = RunFolder(cloud.path("r"))
    with contextlib.redirect_stdout(io.StringIO()) as out, log_writer.tee_output(run, "ps-0"):
        print("hello")
        cloud.fault("POST .*/upload/", status=403, times=99)
    assert out.getvalue() == "hello\n"
    assert not storage.exists(run.log_path("ps-0"))


def test_the_streams_are_themselves_again(tmp_path):
    before = sys.stdout, sys.stderr
    with log_writer.tee_output(RunFolder(str(tmp_path)), "ps-0"):
        assert sys.stdout is not before[0]
        with pytest.raises(AttributeError):
            _ = sys.stdout.no_such_thing
    assert (sys.stdout, sys.stderr) == before
