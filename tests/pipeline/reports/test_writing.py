"""The report is put into the folder of its run."""

from __future__ import annotations

import pathlib

from pipeline.reports import facts, writing
from tests.pipeline.reports import scene


def test_it_lies_in_the_folder_of_the_run(tmp_path):
    run = scene.make(tmp_path)
    path = pathlib.Path(writing.write(run))
    assert path == pathlib.Path(run.path) / "report.html"
    assert path.read_text().startswith("<!doctype html>")
    assert writing.attempt(run) == str(path)


def test_a_mistake_in_it_fails_no_run(tmp_path, monkeypatch):
    def broken(run):
        raise ZeroDivisionError("of nothing")

    monkeypatch.setattr(facts, "gather", broken)
    told = writing.attempt(scene.make(tmp_path))
    assert told == "not written (ZeroDivisionError: of nothing)"
