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
