"""Tags of runs."""

from __future__ import annotations

import pytest

from pipeline import errors, storage
from pipeline.runs import tags
from pipeline.runs.run_folder import RunFolder


def test_tags_are_added_and_removed(tmp_path):
    run = RunFolder(str(tmp_path))
    assert tags.read(run) == ()
    assert tags.change(run, ["good", "v1.2", "good"]) == ("good", "v1.2")
    assert tags.change(run, ["-good", "-absent", "x_y"]) == ("v1.2", "x_y") == tags.read(run)


@pytest.mark.parametrize("word", ["", "-", "a b", "--x", "<b>", "x" * 41, "a/b"])
def test_words_that_cannot_be_tags(tmp_path, word):
    with pytest.raises(errors.UsageError, match=r"--tags .*: must be up to 40 letters"):
        tags.change(RunFolder(str(tmp_path)), [word])


@pytest.mark.parametrize("text", ["{", "[]", '{"tags": 5}'])
def test_a_damaged_file_has_no_tags(tmp_path, text):
    storage.write_text(str(tmp_path / "tags.json"), text)
    assert tags.read(RunFolder(str(tmp_path))) == ()
