"""Records whose parts are not what their readers rely on."""

from __future__ import annotations

import pytest

from pipeline.config import config_file
from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder


@pytest.mark.parametrize(
    "part",
    [
        {"best": {"value": "NaN"}},
        {"best": {"metric": "auc", "value": None, "step": 3}},
        {"best": {"metric": "auc", "value": 0.9}},
        {"best": {"metric": "auc", "value": 0.9, "step": 3, "interval": [0.8]}},
        {"intervals": {"eval": {"auc": []}}},
        {"intervals": {"eval": {"auc": ["low", "high"]}}},
    ],
)
def test_a_record_with_a_malformed_part_counts_as_none(tmp_path, part):
    run, job = RunFolder(str(tmp_path)), config_file.load("mnist")
    run_record.write(run, run_record.begin(job, run))
    whole = run.read("run.json")
    sound = {"metric": "auc", "value": "NaN", "step": 3, "interval": "why"}
    run.write("run.json", {**whole, "best": sound})
    assert run_record.read(run).best["metric"] == "auc"
    run.write("run.json", {**whole, **part})
    assert run_record.read(run) is None
