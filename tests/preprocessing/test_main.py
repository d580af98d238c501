"""The command, as a process of its own: flags, exit codes, and being killed at any point."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from pipeline.records import builds, manifest, shard_check
from tests.golden import regenerate
from tests.pipeline.process_help import wait_until
from tests.preprocessing import idx_files
from tests.support import commands

REPOSITORY = regenerate.HERE.parent.parent
COMMAND = [sys.executable, "-m", "preprocessing.main"]
GOLDEN = f"--config={regenerate.CONFIG}"
# Nothing here may take this long; it only keeps a hanging test from hanging all.
SECONDS = 60


def _run(*flags: str) -> subprocess.CompletedProcess[str]:
    return commands.run("preprocessing.main", *flags)


def test_without_arguments_it_helps():
    done = _run()
    assert done.returncode == 0
    assert "estimator-pipeline preprocess" in done.stdout


def test_the_command_line_is_frozen():
    lines = _run("--help").stdout.splitlines()
    flags = [line.split(":")[0].strip() for line in lines if line.strip().startswith("--")]
    assert flags == [
        "--cluster",
        "--config",
        "--[no]dry_run",
        "--[no]force",
        "--num_workers",
        "--pipeline_options",
        "--run",
        "--set",
        "--storage",
    ]


def test_help_needs_neither_beam_nor_tensorflow():
    script = (
        "import sys, preprocessing.main; "
        "print([m for m in ('apache_beam', 'tensorflow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


def test_a_whole_run_never_imports_tensorflow(tmp_path):
    script = (
        "import sys; from pipeline.config import config_file; from preprocessing.build import job; "
        "job.run(config_file.load(sys.argv[1]), sys.argv[2]); "
        "print('tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(regenerate.CONFIG), str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_run_and_its_repetition(tmp_path):
    first = _run(GOLDEN, f"--storage={tmp_path}")
    assert (first.returncode, first.stderr) == (0, "")
    assert "train 130, eval 20, test 50: 200 records in " in first.stdout
    again = _run(GOLDEN, f"--storage={tmp_path}")
    assert (again.returncode, again.stderr) == (0, "")
    assert "up to date (train 130, eval 20, test 50), nothing to do" in again.stdout
    forced = _run(GOLDEN, f"--storage={tmp_path}", "--force")
    assert "train 130, eval 20, test 50: 200 records in " in forced.stdout


def test_of_two_at_once_one_does_the_work(tmp_path):
    started = [
        subprocess.Popen(
            [*COMMAND, GOLDEN, f"--storage={tmp_path}"],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=SECONDS)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert sum("200 records in" in output for output in outputs) == 1, outputs
    assert sum("up to date" in output for output in outputs) == 1, outputs


@pytest.mark.parametrize(
    ("flags", "code", "error"),
    [
        (["--confg=mnist"], 64, "Unknown command line flag 'confg'. Did you mean: config"),
        (["--storage=x"], 64, "--config"),
        (["--config=mnist", "extra"], 64, "unexpected argument 'extra'"),
        (["--config=mnist", "--num_workers=0"], 64, "--num_workers"),
        (["--config=mnits"], 64, "did you mean 'mnist'?"),
        (["--config=mnist", "--set=data.seeds=1"], 64, "unknown key 'data.seeds' (did you mean"),
        (["--config=mnist", "--set=data.source=ids"], 64, "(did you mean 'idx'?)"),
        (["--config=mnist", "--set=data.inputs={}"], 64, "data.inputs: "),
        (["--config=mnist", "--pipeline_options=--x=1"], 64, "Beam has no --x"),
        (["--config=mnist", "--set=data.inputs.train.images=absent"], 65, "absent': no such file"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(tmp_path, flags, code, error):
    storage = [] if any(f.startswith("--storage") for f in flags) else [f"--storage={tmp_path}"]
    assert error in commands.read_error_line(_run(*flags, *storage), code)


def test_a_bad_label_is_one_line_too(tmp_path):
    inputs = idx_files.write_pair(tmp_path, "t", 30)
    with open(inputs["labels"], "r+b") as file:
        file.seek(8 + 7)
        file.write(b"\x63")
    pair = f"{{images: {inputs['images']}, labels: {inputs['labels']}}}"
    done = _run("--config=mnist", f"--set=data.inputs={{train: {pair}}}", f"--storage={tmp_path}")
    assert commands.read_error_line(done, 65) == (
        f"error: {inputs['labels']!r}: row 7: column 'label' is 99, allowed is 0 to 9. To leave "
        'out bad rows, up to 1 % of all: SET="data.error_budget=0.01"\n'
    )


# What shows that a run has come so far, as a pattern below the records folder.
STAGES = {
    "folders": "_tmp-*",
    "spilling": "_tmp-*/*.arrow",
    "writing": "_tmp-*/*.json",
}


@pytest.mark.parametrize(
    ("stage", "workers"), [("folders", 1), ("spilling", 1), ("writing", 1), ("writing", 2)]
)
def test_killed_at_any_point_it_leaves_no_manifest_and_runs_again(tmp_path, stage, workers):
    """The shipped job with many shards, so that each stage lasts long enough to be met."""
    flags = ["--config=mnist", f"--storage={tmp_path}", "--set=data.shards.train=64"]
    flags += ["--set=data.shards.eval=32", f"--num_workers={workers}"]
    folder = tmp_path / "records" / "mnist"
    with subprocess.Popen(
        [*COMMAND, *flags], cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        wait_until(
            lambda: any(folder.glob(STAGES[stage])) or process.poll() is not None,
            SECONDS,
            poll=0.001,
        )
        children = _children(process.pid)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    assert not [*folder.glob("**/manifest.json"), *folder.glob("current.json")]
    assert any(folder.glob("_tmp-*"))
    wait_until(lambda: not any(map(_alive, children)), SECONDS)
    again = _run(*flags)
    assert (again.returncode, again.stderr) == (0, "")
    assert not any(folder.glob("_tmp-*"))
    build = builds.find_current(str(folder))
    shard_check.verify(build, manifest.read(build), contents=True)
    assert [path.parent for path in folder.glob("**/*.tfrecord") if str(path.parent) != build] == []


def test_an_interrupt_is_reported_and_leaves_no_unfinished_build(tmp_path):
    folder = tmp_path / "records" / "mnist"
    command = [*COMMAND, "--config=mnist", f"--storage={tmp_path}"]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        wait_until(
            lambda: any(folder.glob("_tmp-*/*.arrow")) or process.poll() is not None,
            SECONDS,
            poll=0.001,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 75
        assert process.stderr.read() == "stopped by SIGINT. Run the same command again.\n"
    # Pieces that were finished stay for the next run.
    assert all(path.name.startswith("_tmp-") for path in folder.glob("[!.]*"))
    assert not any(folder.glob("_tmp-*")) or any(folder.glob("_tmp-*/*.piece.json"))


def _children(pid: int) -> list[int]:
    """Returns all processes below `pid`, on Linux."""
    found = []
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_children(int(child))]
    return found


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_alive_knows_the_living():
    assert _alive(os.getpid())
