"""The command that writes the report of a run."""

from __future__ import annotations

import pathlib

from tests.pipeline.reports import scene
from tests.support import commands


def _report(*flags):
    return commands.run("pipeline.commands.report", *flags)


def test_it_says_where_the_page_is(tmp_path):
    run = scene.make(tmp_path)
    assert _report(f"--storage={tmp_path}").stdout == f"report in {run.path}/report.html\n"
    assert "<title>Run r</title>" in (pathlib.Path(run.path) / "report.html").read_text()


def test_bad_input_is_one_line(tmp_path):
    run = scene.make(tmp_path)
    line = commands.read_error_line(_report(f"--storage={tmp_path}", "--run=rr"))
    assert "run 'rr': not in" in line and "did you mean 'r'?" in line
    (pathlib.Path(run.path) / "run.json").unlink()
    (pathlib.Path(run.path) / "checkpoint").unlink()
    line = commands.read_error_line(_report(f"--storage={tmp_path}", "--run=r"))
    assert "has no run.json, so it has never begun. Train it with make train CONFIG=" in line
    assert "/r/config.yaml RUN=r" in line
