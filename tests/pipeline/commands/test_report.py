"""The command that writes the report of a run."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from tests.pipeline.reports import scene

ROOT = pathlib.Path(__file__).resolve().parents[3]


def _report(*flags, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.commands.report", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_it_says_where_the_page_is(tmp_path):
    run = scene.make(tmp_path)
    assert _report(f"--storage={tmp_path}") == f"report in {run.path}/report.html\n"
    assert "<title>Run r</title>" in (pathlib.Path(run.path) / "report.html").read_text()


def test_bad_input_is_one_line(tmp_path):
    run = scene.make(tmp_path)
    line = _report(f"--storage={tmp_path}", "--run=rr", code=64)
    assert "run 'rr': not in" in line and "did you mean 'r'?" in line and line.count("\n") == 1
    (pathlib.Path(run.path) / "run.json").unlink()
    (pathlib.Path(run.path) / "checkpoint").unlink()
    line = _report(f"--storage={tmp_path}", "--run=r", code=64)
    assert "has no run.json, so it has never begun. Train it with make train CONFIG=" in line
    assert "/r/config.yaml RUN=r" in line
    assert line.count("\n") == 1
