"""What differs between two runs, by the files they leave."""

from __future__ import annotations

import pathlib
import shutil

from pipeline.config import config_file
from pipeline.records import manifest
from pipeline.records.manifest import ColumnStatistics, Statistics
from pipeline.reports import differences, facts, goodput
from pipeline.runs import accounts, run_record
from tests import record_sets
from tests.pipeline.reports import scene


def _config(*settings):
    return config_file.load("mnist", list(settings))


def test_only_keys_of_the_config_that_differ_are_listed():
    rows = differences.compare_configs(
        _config("train.steps=5"), _config("train.steps=6", "eval.early_stopping={patience: 2}")
    )
    assert rows == [
        ("train.steps", "5", "6"),
        ("eval.early_stopping", "null", ""),
        ("eval.early_stopping.patience", "", "2"),
        ("eval.early_stopping.min_delta", "", "0.0"),
    ]
    assert differences.compare_configs(_config(), _config()) == []


def test_truth_values_zeros_and_secrets_of_a_config():
    one = _config("model.name=my.model:fn", "model.params={api_key: abcd, bright: true, n: 0}")
    other = _config("model.name=my.model:fn", "model.params={api_key: efgh, bright: false, n: 1}")
    assert differences.compare_configs(one, other) == [
        ("model.params.api_key", "[hidden]", "[hidden]"),
        ("model.params.bright", "true", "false"),
        ("model.params.n", "0", "1"),
    ]


def _facts(tmp_path, name, **changes):
    run = scene.make(tmp_path, name)
    record = run_record.read(run)
    for key, value in changes.items():
        setattr(record, key, value)
    run_record.write(run, record)
    return facts.gather(run, now=scene.BEGAN + 200)


def test_code_and_outcome(tmp_path):
    one = _facts(tmp_path, "a", versions={"python": "3.11.1", "numpy": "1.26.4"})
    other = _facts(
        tmp_path, "b", versions={"python": "3.11.1", "code": "12ab"}, examples_per_second=20.4
    )
    assert differences.compare_code(one, other) == [("numpy", "1.26.4", ""), ("code", "", "12ab")]
    rows = {name: (a, b) for name, a, b in differences.compare_outcomes(one, other)}
    assert rows["steps"] == ("200", "200") and rows["examples/s"] == ("366", "20")
    assert rows["goodput"] == ("40.0%", "40.0%")
    assert rows["time"] == ("1 min 40 s", "1 min 40 s")
    # 100 s of a chief, a worker, a parameter server and an evaluator.
    assert float(rows["process hours"][0]) == round(100 * 4 / 3600, 4)


def test_the_time_is_that_of_all_launches(tmp_path):
    one = _facts(tmp_path, "a")
    first = run_record.Launch(
        started=scene.BEGAN - 500, ended=scene.BEGAN - 400, topology={"chief": 1, "worker": 4}
    )
    again = _facts(tmp_path, "b", earlier=[first], launches=2)
    rows = {name: (a, b) for name, a, b in differences.compare_outcomes(one, again)}
    assert rows["time"] == ("1 min 40 s", "3 min 20 s")
    assert float(rows["process hours"][1]) == round((100 * 4 + 100 * 5) / 3600, 4)


def test_where_time_went_stands_together_whatever_one_run_lacks(tmp_path):
    one, other = _facts(tmp_path, "a"), _facts(tmp_path, "b")
    pathlib.Path(other.run.path, "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"')
    without = _facts(tmp_path, "c")
    shutil.rmtree(pathlib.Path(without.run.path, accounts.FOLDER))
    for pair in ((one, other), (other, one), (without, other), (other, without)):
        names = [name for name, *_ in differences.compare_outcomes(*pair)]
        causes = [f"time for {name}" for name in goodput.WHAT if f"time for {name}" in names]
        at = names.index("goodput") + 1
        assert "time for lost work" in causes
        assert names[at : at + len(causes)] == causes
        assert names[-2:] == ["restarts", "launches"]


def test_process_hours_of_a_worker_are_those_in_the_job(tmp_path):
    changes = [run_record.WorkerChange(workers=2, time=scene.BEGAN + 70)]
    one = _facts(tmp_path, "a", scalings=changes, topology={"chief": 1, "worker": 2, "ps": 1})
    rows = {name: a for name, a, _ in differences.compare_outcomes(one, one)}
    assert float(rows["process hours"]) == round((3 * 100 + 30) / 3600, 4)


def _contents(tmp_path, name, **statistics):
    made = record_sets.write(tmp_path / name, {"train": [[b"x"]]}, block_records=1)
    found = ColumnStatistics(count=90, **statistics)
    of_train = {"train": Statistics(columns={"label": found})}
    return manifest.Manifest(**{**dict(made), "statistics": of_train})


def test_statistics_that_differ(tmp_path):
    one = _contents(tmp_path, "a", missing=10, mean=1.5, variance=4.0, min=0, max=3)
    other = _contents(tmp_path, "b", missing=0, mean=1.5, variance=9.0, min=0, max=30)
    assert differences.compare_statistics(one, other) == [
        ("label: missing", "10.00%", "0.00%"),
        ("label: deviation", "2.0000", "3.0000"),
        ("label: max", "3.0000", "30.0000"),
    ]
    assert differences.compare_statistics(one, one) == []
