"""Commands on a run, in messages."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.runs import resuming
from pipeline.runs.run_folder import RunFolder


def test_what_is_wrong_with_the_records_of_one_of_several_runs(tmp_path):
    run = RunFolder(str(tmp_path / "runs" / "r"))
    text = "it is damaged: make preprocess FORCE=1; or make train SET=x=1"
    with pytest.raises(errors.DataError) as caught, resuming.explain_record_errors(run):
        raise errors.DataError(text)
    config = f"CONFIG={tmp_path}/runs/r/config.yaml"
    assert str(caught.value) == (
        f"run 'r': it is damaged: make preprocess {config} FORCE=1; "
        f"or make train {config} RUN=r STORAGE={tmp_path} SET=x=1"
    )
