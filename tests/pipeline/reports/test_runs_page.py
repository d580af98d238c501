"""The page of all runs."""

from __future__ import annotations

import pathlib
import re

from pipeline.reports import runs_page
from pipeline.runs import run_list, tags
from tests.pipeline.reports import scene


def test_reports_are_linked_where_they_are(tmp_path):
    first, second = scene.make(tmp_path, "a b"), scene.make(tmp_path, "x")
    tags.change(second, ["good"])
    (pathlib.Path(first.path) / "report.html").touch()
    path = runs_page.write(str(tmp_path), run_list.read(str(tmp_path), scene.BEGAN + 200))
    text = pathlib.Path(path).read_text()
    assert path == f"{tmp_path}/runs.html"
    assert re.findall('href="(.*?)"', text) == ["runs/a%20b/report.html"]
    assert "2 done" in text and "<td>good</td>" in text and "accuracy 0.9000" in text
    assert not re.search(r"https?:|<script|src=|url\(|@import", text)


def test_names_are_text(tmp_path):
    scene.make(tmp_path, "<b>")
    text = runs_page.render(str(tmp_path), run_list.read(str(tmp_path), scene.BEGAN + 200))
    assert "<b>" not in text and "&lt;b&gt;" in text
