"""Estimators that others wrote: all those of DeepCTR, in every mode that has processes but one.

Each mode has one of them in `make test-slow`: they differ in their layers, which no mode knows of,
and modes in how they place and update variables, which all have from the same functions of DeepCTR.
`make test-matrix` has the rest of all 39 pairs.
"""

from __future__ import annotations

import itertools
import json
import math
import pathlib
import random
import subprocess
import sys
from importlib import metadata

import pytest

from pipeline.config import strategy_table
from tests.pipeline.process_help import ROOT, child_environment
from tests.support.sets import matrix_unless

ESTIMATORS = [
    "AFMEstimator",
    "AutoIntEstimator",
    "CCPMEstimator",
    "DCNEstimator",
    "DeepFEFMEstimator",
    "DeepFMEstimator",
    "FNNEstimator",
    "FiBiNETEstimator",
    "FwFMEstimator",
    "NFMEstimator",
    "PNNEstimator",
    "WDLEstimator",
    "xDeepFMEstimator",
]
# They have optimizers of their own, which `parameter_server_sync` cannot make wait.
REFUSED = "parameter_server_sync"
MODES = sorted(
    name
    for name, strategy in strategy_table.STRATEGIES.items()
    if strategy.own_evaluator and name != REFUSED
)
ALL = list(itertools.product(ESTIMATORS, MODES))
IN_TURN = list(zip(("xDeepFMEstimator", "DeepFMEstimator", "FiBiNETEstimator"), MODES, strict=True))
STEPS, BATCH, ROWS = 40, 32, 1200
CONFIG = """\
name: clicks
data:
  source: csv
  inputs: {{train: {{files: {table}}}}}
  columns:
    user: {{type: string}}
    item: {{type: string}}
    price: {{type: float32}}
    clicked: {{type: int64}}
  label: clicked
  split: {{eval: 0.1, test: 0.1}}
features:
  user: {{steps: [vocabulary]}}
  item: {{steps: [{{hash: {{buckets: 50}}}}]}}
  price: {{steps: [z_score]}}
model: {{name: "tests.e2e.deepctr_model:model", params: {{of: DCNEstimator}}}}
train: {{steps: {steps}, batch_size: {batch}, save_steps: {steps}}}
eval: {{metric: AUC}}
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A folder with a config, and a table in which users, items and prices tell of clicks."""
    folder = tmp_path_factory.mktemp("deepctr")
    draw = random.Random(4)
    lines = ["user,item,price,clicked"]
    for _ in range(ROWS):
        user, item, price = draw.randrange(8), draw.randrange(20), draw.random()
        logit = (user - 4) * 0.8 + (item % 5 - 2) * 0.9 + price
        lines.append(f"u{user},i{item},{price},{int(draw.random() < 1 / (1 + math.exp(-logit)))}")
    (folder / "clicks.csv").write_text("\n".join([*lines, ""]))
    text = CONFIG.format(table=folder / "clicks.csv", steps=STEPS, batch=BATCH)
    (folder / "clicks.yaml").write_text(text)
    return folder


def _train(folder: pathlib.Path, name: str, mode: str) -> tuple[int, str]:
    """Trains in processes; returns the exit code and all that was printed."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pipeline.launch",
            f"--config={folder}/clicks.yaml",
            f"--storage={folder}/out",
            f"--run={_run(name, mode)}",
            f"--strategy={mode}",
            f"--set=model.params.of={name}",
        ],
        cwd=ROOT,
        # The package asks for its newest version when it is imported, and waits for an answer.
        env={**child_environment(), "HTTPS_PROXY": "http://127.0.0.1:9"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def _run(name: str, mode: str) -> str:
    return f"{name.lower()}-{mode}"


def test_all_of_the_package_are_here():
    files = metadata.files("deepctr") or []
    [listed] = [path for path in files if path.match("estimator/models/__init__.py")]
    text = listed.read_text()
    assert sorted(line.split()[-1] for line in text.splitlines() if line) == sorted(ESTIMATORS)


@pytest.mark.parametrize(("name", "mode"), [matrix_unless(pair in IN_TURN, *pair) for pair in ALL])
def test_it_trains_and_its_export_answers_the_same(job, name, mode):
    code, output = _train(job, name, mode)
    assert code == 0, output
    folder = job / "out" / "runs" / _run(name, mode)
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "done" and record["final_step"] >= STEPS
    rows = record["input"]
    assert not any(row["more"] or row["never"] or row["skipped"] for row in rows)
    # Of both processes where they step together.
    together = 1 + strategy_table.STRATEGIES[mode].synchronous
    saved = int(pathlib.Path(record["exports"]["final"]).name)
    assert sum(row["once"] for row in rows) == saved * BATCH * together
    assert 0 < record["metrics"]["test"]["AUC"] <= 1


def test_each_mode_has_one():
    assert {mode for _, mode in IN_TURN} == {*MODES}
    assert {name for name, _ in IN_TURN} <= {*ESTIMATORS}


@pytest.mark.slow
def test_a_mode_that_needs_the_optimizer_refuses_it(job):
    code, output = _train(job, "DCNEstimator", REFUSED)
    assert code == 64, output
    assert "has an optimizer of its own, which parameter_server_sync cannot make wait" in output
