"""The commands as Python functions: their results, and their errors."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys

import pytest

from pipeline import api, errors
from tests.pipeline.process_help import ROOT, child_environment

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
# Shows the value of the last line of a cell, as notebooks do.
RUN_CELL = """
import ast
shared = {}
def run_cell(text):
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), shared)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), shared)
        if value is not None:
            print('value:', repr(value))
"""
TABLE = """
name: table
data:
  source: csv
  inputs: {train: {file: table.csv}}
  columns: {x: {type: int64}, y: {type: int64}}
  label: y
  shards: {train: 1}
  block_records: 4
model: {name: linear, params: {classes: 2}}
features: {x: {}}
train: {steps: 1}
"""


@pytest.fixture
def table(tmp_path):
    (tmp_path / "table.csv").write_text("x,y\n" + "".join(f"{n},{n % 2}\n" for n in range(200)))
    (tmp_path / "table.yaml").write_text(TABLE)
    return str(tmp_path / "table.yaml")


def test_nothing_heavy_is_imported():
    heavy = "{'tensorflow', 'apache_beam', 'pyarrow'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; from pipeline import api; print({heavy})"],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


def test_records_are_made_and_described(table, tmp_path, capfd):
    root = str(tmp_path / "output")
    found = api.preprocess(table, settings={"data.seed": 3}, storage_root=root)
    assert sum(found.records.values()) == 200
    assert set(found.records) == {"train", "eval"}
    assert os.path.isfile(os.path.join(found.folder, "manifest.json"))
    assert "reading" in capfd.readouterr().out
    assert api.preprocess(table, settings={"data.seed": 3}, storage_root=root, quiet=True) == found
    assert capfd.readouterr().out == ""
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.folder = ""


def test_bad_data_raise_the_error_of_their_exit_code(table, tmp_path):
    (tmp_path / "table.csv").write_text("x,y\n1,one\n")
    with pytest.raises(errors.DataError, match="row 2: column 'y' is 'one', not int64") as caught:
        api.preprocess(table, storage_root=str(tmp_path / "output"), quiet=True)
    assert caught.value.exit_code == 65
    assert not str(caught.value).startswith("error")


def test_wrong_arguments_raise_usage_errors(table, tmp_path):
    with pytest.raises(errors.UsageError, match=r"config 'flihgts': not one of .*'flights'"):
        api.train("flihgts")
    with pytest.raises(errors.UsageError, match=r"train\.batch_size: .* got -5"):
        api.train(table, settings={"train.batch_size": -5})
    with pytest.raises(errors.UsageError, match="no runs in"):
        api.evaluate(storage_root=str(tmp_path))
    with pytest.raises(errors.UsageError, match="run 'a': not in"):
        api.predict("a", storage_root=str(tmp_path))
    assert api.runs(storage_root=str(tmp_path)) == []


def test_the_notebook_has_no_outputs():
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_cells_of_the_notebook_run_in_order(tmp_path):
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    program = RUN_CELL + "".join(f"\nrun_cell({cell!r})" for cell in code)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**child_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    values = [line for line in done.stdout.splitlines() if line.startswith("value: ")]
    records, run, slices, runs = (eval(v.removeprefix("value: "), vars(api)) for v in values)
    assert set(records) == {"train", "eval", "test"}
    assert run["auc"] > 0.75 and run["step"] == 200
    assert os.path.isfile(os.path.join(run["export"], "saved_model.pb"))
    assert slices[0][0] == "all"
    assert {name for name, *_ in slices[1:]} == {"origin=EWR", "origin=JFK", "origin=LGA"}
    assert sum(count for name, count, _ in slices[1:]) == slices[0][1] == records["test"]
    assert runs == [("notebook", "done", 200)]
    assert re.search(r"train\.batch_size: .*greater than 0, got -5", done.stdout)


def test_intervals_that_are_missing_or_doubtful_are_told_apart():
    known = {"value": 0.9, "low": 0.8, "high": 1.0, "few": False}
    metrics = {
        "auc": known,
        "log_loss": {**known, "few_carry": True},
        "rmse": {"value": 0.3, "low": 0.3, "high": 0.3, "few": True, "alike": True},
    }
    found = api._slice({"slice": "all", "records": 50, "metrics": metrics, "baseline": {}})
    assert found.metrics == {
        "auc": api.Estimate(0.9, 0.8, 1.0),
        "log_loss": api.Estimate(0.9, 0.8, 1.0, few_carry=True),
        "rmse": api.Estimate(0.3, None, None),
    }
