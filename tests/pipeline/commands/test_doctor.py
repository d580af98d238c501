import os
import re
import subprocess
import sys

from tests.pipeline.process_help import ROOT, child_environment


def test_a_machine_that_can_train(commands, tmp_path):
    lines = commands.run("pipeline.commands.doctor", f"--storage={tmp_path}/new").splitlines()
    assert all(line.startswith("ok   ") for line in lines)
    for pattern in (
        r"Python 3\.1[01]\.\d+$",
        r"tensorflow 2\.15\.\d+ with Estimators$",
        r"ports can be bound \(\d+, \d+, \d+\)$",
        r"STORAGE '.*new' can be written$",
        r"\d+\.\d GiB free at '.*new'$",
        rf"{os.cpu_count()} CPUs, \d+ GPUs",
        r"CPU:0: 1024x1024 float32 matrix product at [\d,.]+ GFLOP/s$",
    ):
        assert any(re.search(pattern, line) for line in lines), (pattern, lines)
    assert os.listdir(tmp_path / "new") == []


def test_what_is_wrong_is_reported_with_what_to_do_and_code_64(tmp_path):
    (tmp_path / "file").write_text("")
    # Of the checks only that of the storage, which needs no TensorFlow.
    program = (
        "from pipeline import cli; from pipeline.commands import doctor;"
        "from pipeline.launchers import checks;"
        "checks.check_machine = checks.check_storage;"
        "cli.run(doctor.main)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"--storage={tmp_path}/file/x"],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 64
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FIX")]
    assert "cannot be written" in line and "Choose a place you can write to with STORAGE=" in line
    assert done.stderr == "error: some checks failed; see the lines with FIX\n"


def test_matrix_products_of_a_device_by_size_and_type(commands):
    said = commands.run("pipeline", "doctor", "--device=/cpu:0", "--size=16,33")
    lines = [line.partition(" matrix product at ")[0] for line in said.splitlines()]
    types = ("float64", "float32", "bfloat16")
    assert lines == [f"CPU:0: {n}x{n} {dtype}" for n in (16, 33) for dtype in types]
