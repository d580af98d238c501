import subprocess
import sys

import pytest

from tests.pipeline.process_help import ROOT, child_environment

PROGRAM = """
'''Does nothing much.'''
from absl import flags
from pipeline import cli, errors
flags.DEFINE_string("config", None, "The config.", required=True)
def main():
    {body}
cli.run(main)
"""


def run(*arguments, body="print('worked')", flags=""):
    program = PROGRAM.format(body=body).replace("def main", f"{flags}\ndef main")
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_command_that_works():
    done = run("--config=x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--config=x", "--cofnig=y"], "Unknown command line flag 'cofnig'. Did you mean: config"),
        (["--config=x", "more"], "unexpected argument 'more'. All options are --flags."),
        (["--nothing=1"], "Unknown command line flag 'nothing'"),
    ],
)
def test_bad_flags_are_one_error_with_code_64(arguments, text):
    done = run(*arguments)
    assert done.returncode == 64 and done.stdout == ""
    assert done.stderr.startswith("error: ") and text in done.stderr
    assert "Traceback" not in done.stderr


def test_all_flags_that_are_missing_are_one_line():
    done = run("--nohelp", flags="flags.DEFINE_string('run', None, 'A run.', required=True)")
    assert (done.returncode, done.stderr) == (
        64,
        "error: --config=None: Flag --config must have a value other than None; --run=None: Flag "
        "--run must have a value other than None\n",
    )


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_is_no_error(arguments):
    done = run(*arguments)
    assert done.returncode == 0 and "--config" in done.stdout


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("raise errors.DataError('shard 1: missing')", 65, "error: shard 1: missing\n"),
        ("raise errors.ReportedError(70)", 70, ""),
        ("raise errors.RetryableError('the disk is full')", 75, "error: the disk is full\n"),
        ("raise errors.StoppedError('saved at step 7')", 75, "saved at step 7\n"),
        ("raise KeyboardInterrupt", 75, "stopped. Run the same command again.\n"),
    ],
)
def test_failures_are_one_line_and_a_code(body, code, text):
    done = run("--config=x", body=body)
    assert (done.returncode, done.stderr) == (code, text)


def test_a_full_disk_is_one_line_from_any_source():
    done = run("--config=x", body="raise RuntimeError('/r/e; No space left on device')")
    assert (done.returncode, done.stderr) == (
        75,
        "error: cannot write '/r/e': No space left on device. Free some space and run the same "
        "command again.\n",
    )


def test_a_bug_keeps_its_traceback():
    done = run("--config=x", body="raise KeyError('ours')")
    assert done.returncode == 1 and "Traceback" in done.stderr


def test_a_reader_that_has_gone_is_no_error():
    program = PROGRAM.format(body="print('x\\n' * 100000)")
    with subprocess.Popen(
        [sys.executable, "-c", program, "--config=x"],
        cwd=ROOT,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_being_asked_to_end_is_an_interruption_and_no_error(name):
    body = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    done = run("--config=x", body=body)
    assert (done.returncode, done.stderr) == (
        75,
        f"stopped by {name}. Run the same command again.\n",
    )


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("where", ["hints.format_as_typed", "cli._print_error", "cli._parse_flags"])
def test_signals_that_come_at_other_moments_leave_one_line(where, name):
    """As from `timeout`, which sends them to make and to what make has started."""
    flags = f"""
import os, signal
from pipeline.command_line import hints
before = {where}
def interrupted(*given):
    {where} = before
    os.kill(os.getpid(), signal.{name})
    return before(*given)
{where} = interrupted
"""
    done = run("--config=x", body=f"os.kill(os.getpid(), signal.{name})", flags=flags)
    assert (done.returncode, done.stderr) == (
        75,
        f"stopped by {name}. Run the same command again.\n",
    )


def test_what_was_ignored_stays_ignored():
    """As under nohup."""
    body = "import os, signal; os.kill(os.getpid(), signal.SIGHUP); print('worked')"
    program = PROGRAM.format(body=body)
    done = subprocess.run(
        ["nohup", sys.executable, "-c", program, "--config=x"],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "worked\n")


FLAGS = """
from absl import flags
from pipeline import cli, errors
flags.DEFINE_integer("workers", None, "A number.", lower_bound=0)
flags.DEFINE_float("cores", None, "A number.", lower_bound=0.1)
flags.DEFINE_float("often", 0.0, "A number.", lower_bound=0.0)
flags.DEFINE_string("split", None, "A name.")
flags.DEFINE_string("splits", None, "Names.")
def main():
    raise errors.UsageError("--split 'x': has none, --splits=y: neither; give --cores=3")
cli.run(main)
"""


@pytest.mark.parametrize(
    ("argument", "by_hand", "by_make"),
    [
        (
            "--workers=abc",
            "--workers=abc: must be a whole number",
            "WORKERS=abc: must be a whole number",
        ),
        (
            f"--workers={'9' * 5001}",
            f"--workers={'9' * 5001}: is too large",
            f"WORKERS={'9' * 5001}: is too large",
        ),
        (
            "--workers=-1",
            "--workers=-1: -1 is not a non-negative integer",
            "WORKERS=-1: -1 is not a non-negative integer",
        ),
        ("--cores=0", "--cores=0: must be a number >= 0.1", "CORES=0: must be a number >= 0.1"),
        (
            "--often=-1",
            "--often=-1: must be a non-negative number",
            "OFTEN=-1: must be a non-negative number",
        ),
        ("--cores=x", "--cores=x: must be a number", "CORES=x: must be a number"),
        (
            "--cores=nan",
            "--cores=nan: must be a finite number",
            "CORES=nan: must be a finite number",
        ),
        (
            "--often=inf",
            "--often=inf: must be a finite number",
            "OFTEN=inf: must be a finite number",
        ),
        (
            "--split=x",
            "--split 'x': has none, --splits=y: neither; give --cores=3",
            "SPLIT='x': has none, --splits=y: neither; give CORES=3",
        ),
    ],
)
def test_what_was_given_is_called_as_it_was_typed(argument, by_hand, by_make):
    for via, text in (("", by_hand), ("make", by_make)):
        done = subprocess.run(
            [sys.executable, "-c", FLAGS, argument],
            cwd=ROOT,
            env={**child_environment(), "PIPELINE_VIA": via},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (64, f"error: {text}\n")


def test_paths_below_the_current_folder_are_shown_as_people_write_them():
    here = repr(f"{ROOT}/output/runs")
    done = run("--config=x", body=f'raise errors.UsageError("no runs in {here}")')
    assert done.stderr == "error: no runs in 'output/runs'\n"


def test_make_gives_several_settings_in_one_variable():
    show = (
        "from absl import flags; from pipeline import cli; "
        "S = flags.DEFINE_multi_string('set', [], ''); cli.run(lambda: print(S.value))"
    )
    given = "--set=a=1 b={x: 1, y: 2}"
    for via, settings in (("", ["a=1 b={x: 1, y: 2}"]), ("make", ["a=1", "b={x: 1, y: 2}"])):
        done = subprocess.run(
            [sys.executable, "-c", show, given],
            cwd=ROOT,
            env={**child_environment(), "PIPELINE_VIA": via},
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"{settings}\n", done.stderr


@pytest.mark.parametrize(("given", "seen"), [(None, "3"), ("0", "0")])
def test_what_tensorflow_logs_is_for_the_environment_to_say(monkeypatch, given, seen):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    if given is not None:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", given)
    program = (
        "import os\n"
        "from pipeline import cli\n"
        "cli.run(lambda: print(os.environ['TF_CPP_MIN_LOG_LEVEL']), native_log='3')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{seen}\n"
