"""The command, as a process of its own: a config that make preprocess takes at once."""

from __future__ import annotations

import subprocess
import sys

from pipeline.config import config_file

ROOT = config_file.SHIPPED.parent


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )


def test_from_data_to_records(tmp_path):
    out = tmp_path / "first.yaml"
    flags = ("--data=data/flights/sample.csv.gz", f"--out={out}")
    done = _run("preprocessing.infer_schema", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{out}: 19 columns of 5,000 rows. Look it over" in done.stdout
    assert "\nlabel: arr_delay, a guess: its name is an outcome's; another: " in done.stdout
    done = _run("preprocessing.main", f"--config={out}", f"--storage={tmp_path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert ": 4,841 records in" in done.stdout
    done = _run("preprocessing.infer_schema", *flags)
    assert done.returncode == 64 and "is there already" in done.stderr


def test_numbers_that_float32_makes_equal_are_named(tmp_path):
    rows = "".join(f"{1e9 + n / 1000:.3f},{n % 7},{n / 3}\n" for n in range(400))
    (tmp_path / "far.csv").write_text("far,n,near\n" + rows)
    flags = (f"--data={tmp_path / 'far.csv'}", f"--out={tmp_path / 'far.yaml'}")
    done = _run("preprocessing.infer_schema", *flags)
    assert "warning: 'far' has 400 different numbers, of which float32 makes 1: " in done.stdout
    assert "'near' has" not in done.stdout


def test_the_label_is_a_flag(tmp_path):
    flags = ("--data=data/flights/sample.csv.gz", f"--out={tmp_path / 'first.yaml'}")
    done = _run("preprocessing.infer_schema", *flags, "--label=orgin")
    assert (done.returncode, done.stdout) == (64, "")
    assert "LABEL=orgin: no such column (did you mean 'origin'" in done.stderr
    assert _run("preprocessing.infer_schema", *flags, "--label=origin").returncode == 0


def test_what_is_not_there():
    done = _run("preprocessing.infer_schema", "--data=absent.csv")
    assert done.returncode == 65
    assert done.stderr.startswith("error: 'absent.csv': no such file") and (
        len(done.stderr.splitlines()) == 1
    )
