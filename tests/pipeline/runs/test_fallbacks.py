"""When training continued from a checkpoint that was not the newest."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.runs import fallbacks
from pipeline.runs.fallbacks import Fallback
from pipeline.runs.run_folder import RunFolder


def test_they_are_kept_over_all_launches(tmp_path):
    run = RunFolder(str(tmp_path))
    assert fallbacks.read(run) == []
    first, again, second = (
        Fallback(step=step, newest=newest, time=time)
        for step, newest, time in ((12, 20, 1.5), (15, 20, 2.5), (20, 30, 3.5))
    )
    for one in (first, again, second):
        fallbacks.add(run, one)
    assert fallbacks.read(run) == [first, second]


@pytest.mark.parametrize("content", [{"fallbacks": [{"step": 12}]}, {"fallbacks": 7}])
def test_a_file_that_is_damaged_is_an_error(tmp_path, content):
    run = RunFolder(str(tmp_path))
    run.write(fallbacks.FILE_NAME, content)
    with pytest.raises(errors.DataError, match=r"fallbacks\.json is damaged"):
        fallbacks.read(run)
