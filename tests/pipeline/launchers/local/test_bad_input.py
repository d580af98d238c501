"""What cannot work on this machine: the last line says what to do, and no process trains."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from tests.pipeline.process_help import ROOT, child_environment
from tests.support.sets import slow_unless

READ_ONLY = "mount --bind {disk} {disk} && mount -o remount,ro,bind {disk}"
FULL = "mount -t tmpfs -o size=64k tmpfs {disk} && (head -c 1m /dev/zero > {disk}/zeros || true)"


@dataclasses.dataclass(frozen=True)
class Row:
    """What the last line begins with and has, what is asked for, and the exit code. `mounts` is
    done before, where `{disk}` is `STORAGE=`; `tensorflow` is the version of another one."""

    begins: str
    has: str
    arguments: tuple[str, ...] = ()
    mounts: str = "true"
    tensorflow: str = ""
    code: int = 64


ROWS = {
    "no such place": Row(
        "error: --cluster=moon: value should be one of <local|", "", ("--cluster=moon",)
    ),
    "storage that is read-only": Row(
        "error: cannot create folder ",
        "Choose a place you can write to with STORAGE=.",
        mounts=READ_ONLY,
    ),
    "storage that is full": Row(
        "error: cannot ", "Free some space and run the same", mounts=FULL, code=75
    ),
    "no GPU": Row(
        "error: cluster.devices: '/gpu:0' does not exist, this machine has no GPU; ",
        "use /cpu:0",
        ("--set=cluster.strategy=one_device", "--set=cluster.devices=[/gpu:0]"),
    ),
    "a module that is not there": Row(
        "error: ",
        "no module 'nowhere'; is its folder on PYTHONPATH?",
        ("--set=model.name=nowhere:fn",),
    ),
    "no raw data": Row(
        "error: '/nowhere': no such file", "", ("--set=data.inputs.train.images=/nowhere",), code=65
    ),
    "a TensorFlow without Estimators": Row(
        "error: tensorflow 2.16.1 has no Estimators; ", "run make setup", tensorflow="2.16.1"
    ),
}


@pytest.mark.parametrize(
    "row",
    [slow_unless(name in ("no GPU", "storage that is full"), row) for name, row in ROWS.items()],
    ids=ROWS,
)
def test_the_last_line_says_what_to_do_and_nothing_trains(tmp_path, small_records, row):
    disk, other = tmp_path / "disk", tmp_path / "other"
    disk.mkdir()
    if row.tensorflow:
        (other / "tensorflow").mkdir(parents=True)
        (other / "tensorflow/__init__.py").write_text(f"__version__ = {row.tensorflow!r}\n")
        info = other / f"tensorflow-{row.tensorflow}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {row.tensorflow}\n"
        )
    command = [sys.executable, "-m", "pipeline.launch", f"--config={small_records.config_path}"]
    command += [f"--storage={disk}", "--run=bad", *row.arguments]
    if row.mounts != "true":
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
            pytest.skip("no mounts of its own for a process here")
        script = f'{row.mounts.format(disk=disk)} && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", *command]
    environment = child_environment()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**environment, "PYTHONPATH": f"{other}:{environment['PYTHONPATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == row.code, done.stdout + done.stderr
    assert last.startswith(row.begins) and row.has in last, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(disk.rglob("model.ckpt*"))
