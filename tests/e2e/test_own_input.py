"""Whole jobs on an input_fn of the user's own: the example of the docs."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
import tensorflow as tf

from pipeline.config import strategy_table
from tests.support import pages
from tests.support.sets import matrix
from tests.trainer import own_job

SEVERAL = [name for name, one in strategy_table.STRATEGIES.items() if one.own_evaluator]


def example(folder: pathlib.Path) -> None:
    """Writes the two files of the page."""
    for language, name in (("python", "mine.py"), ("yaml", "mine.yaml")):
        (folder / name).write_text(pages.find_block("own-input.md", language))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "strategy",
    ["none", "parameter_server", *map(matrix, ("mirrored", "parameter_server_strategy"))],
)
def test_the_example_of_the_docs_trains_as_printed(tmp_path, strategy):
    example(tmp_path)
    counts = ("--workers=1", "--ps=1") if strategy.startswith("parameter_server") else ()
    sizes = ("--set=cluster.workers=null", "--set=cluster.ps=null")
    done = pages.run(
        tmp_path,
        "train",
        "--config=mine.yaml",
        "--run=r",
        f"--strategy={strategy}",
        *(counts or sizes),
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    run = tmp_path / "output" / "runs" / "r"
    record = json.loads((run / "run.json").read_text())
    assert (record["status"], record["input"]) == ("done", None)
    assert record["metrics"]["eval"]["accuracy"] > 0.9
    assert "examples come from mine:rows: no ledger" in done.stdout
    assert re.search(r"export of step \d+: 256 rows of the examples to evaluate are", done.stdout)
    export = tf.saved_model.load(str(run / record["exports"]["final"]))
    answers = export.signatures["predict"](x=tf.constant([[3.0, -3, 3], [-3, 3, -3]]))
    assert answers["class_ids"].numpy().ravel().tolist() == [1, 0]
    refused = pages.run(tmp_path, "ledger", "--run=r")
    assert (refused.returncode, refused.stdout) == (64, "")
    assert "ledger: needs records" in refused.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("strategy", [*SEVERAL[:2], *map(matrix, SEVERAL[2:])])
def test_a_model_with_our_update_trains_in_several_processes(tmp_path, strategy):
    servers = {"ps": 1} if strategy_table.STRATEGIES[strategy].servers else {}
    config = own_job.write(tmp_path, strategy, workers=1, **servers)
    done = pages.run(tmp_path, "train", f"--config={config}", "--run=r")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    run = tmp_path / "output" / "runs" / "r"
    record = json.loads((run / "run.json").read_text())
    assert (record["status"], record["restarts"]) == ("done", [])
    assert own_job.STEPS <= record["final_step"] <= own_job.STEPS + 2
    assert record["metrics"]["eval"]["loss"] < 0.05
    told = f"export of step {record['final_step']}: 256 rows of the examples to evaluate are"
    assert told in json.loads((run / "status" / "evaluator-0.json").read_text())["note"]


@pytest.mark.slow
def test_an_optimizer_of_the_model_is_refused_where_all_update_together(tmp_path):
    example(tmp_path)
    done = pages.run(tmp_path, "train", "--config=mine.yaml", "--strategy=parameter_server_sync")
    assert done.returncode == 64
    [line] = done.stderr.splitlines()
    assert "model.name 'mine:model': has an optimizer of its own" in line
