import signal
import subprocess
import sys

import pytest

from pipeline.processes import exits
from tests.pipeline.process_help import ROOT, child_environment

ENDING = (
    "from pipeline import cli, errors\n"
    "def main():\n"
    "    print('said before', flush=False)\n"
    "    raise errors.{kind}('lost')\n"
    "cli.run(main, ['x'])\n"
)
# One thread leaves while another waits, with the lock of its stream, for a reader of a full pipe.
LEAVING = """
import array, fcntl, os, sys, termios, threading
from pipeline.processes import exits
reads, writes = os.pipe()
os.dup2(writes, 2)
size = fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
said = ("x" * 10**6,)
threading.Thread(target=print, args=said, kwargs={"file": sys.stderr}, daemon=True).start()
filled = array.array("i", [0])
while filled[0] < size:
    fcntl.ioctl(reads, termios.FIONREAD, filled)
exits.exit_at_once(75)
"""


@pytest.mark.parametrize(
    ("kind", "asked", "code"),
    [
        ("RetryableError", "1", -signal.SIGABRT),
        ("RetryableError", "", 75),
        ("ModelError", "1", 70),
    ],
)
def test_what_may_succeed_again_is_a_crash_where_only_crashes_are_restarted(kind, asked, code):
    done = subprocess.run(
        [sys.executable, "-c", ENDING.format(kind=kind)],
        cwd=ROOT,
        env={**child_environment(), exits.VARIABLE: asked},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert (done.stdout, done.stderr) == ("said before\n", "error: lost\n")


@pytest.mark.skipif(sys.platform != "linux", reason="sets the size of a pipe")
@pytest.mark.parametrize(("asked", "code"), [("1", -signal.SIGABRT), ("", 75)])
def test_leaving_at_once_waits_for_nobody_who_reads(asked, code):
    environment = {**child_environment(), exits.VARIABLE: asked}
    environment.pop("PYTHONUNBUFFERED", None)
    command = [sys.executable, "-c", LEAVING]
    done = subprocess.run(command, cwd=ROOT, env=environment, timeout=60)
    assert done.returncode == code
