"""What a reader of a comparison is told of its runs."""

from __future__ import annotations

from pipeline.config import config_file
from pipeline.runs.run_folder import RunFolder
from trainer.comparison import comparing
from trainer.comparison.pairing import ComparedRun


def _side(tmp_path, name, *settings):
    job = config_file.load("mnist", list(settings))
    return ComparedRun(RunFolder(str(tmp_path / name)), job, "", None, {})


def test_metrics_that_differ_are_no_news_if_neither_decides(tmp_path):
    a, b = _side(tmp_path, "a"), _side(tmp_path, "b", "eval.metric=loss", "eval.top_k=3")
    both = comparing.list_notes(a, b, None)
    assert [note.split()[0] for note in both] == ["eval.metric", "eval.top_k"]
    assert comparing.list_notes(a, b, "log_loss") == both[1:]
