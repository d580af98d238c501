"""Input and model of the user's own, in one process, under each strategy for one."""

from __future__ import annotations

import pytest

from pipeline.config import strategy_table
from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder
from tests.support.sets import slow_unless
from tests.trainer import own_job
from tests.trainer.commands import error_line

SINGLE = [name for name, one in strategy_table.STRATEGIES.items() if not one.own_evaluator]


@pytest.mark.parametrize(
    "strategy", [slow_unless(name in ("none", "mirrored"), name) for name in SINGLE]
)
def test_it_trains_evaluates_and_exports(commands, tmp_path, strategy):
    config = own_job.write(tmp_path, strategy)
    output = commands.run(
        "trainer.task", f"--config={config}", "--run=r", f"--storage={tmp_path}/output"
    )
    run = RunFolder(str(tmp_path / "output" / "runs" / "r"))
    record = run_record.read(run)
    assert (record.status, record.final_step) == ("done", own_job.STEPS), output
    assert record.metrics["eval"]["loss"] < 0.01
    assert record.best["metric"] == "loss"
    assert f"export of step {own_job.STEPS}: 256 rows of the examples to evaluate are" in output


def test_a_checkpoint_of_other_shapes_is_refused_in_one_line(commands, tmp_path):
    """TensorFlow restores it without a word; the one that training continues from is not always
    evaluated before."""
    arguments = f"--config={own_job.write(tmp_path, 'none')}", "--run=r", f"--storage={tmp_path}"
    commands.run("trainer.task", *arguments)
    newest = tmp_path / "runs" / "r" / f"model.ckpt-{own_job.STEPS}"
    before = sorted(newest.parent.glob("model.ckpt-*"))
    more = f"--set=train.steps={own_job.STEPS + 20}"
    changed = {"OWN_WIDTH": "2"}
    started = commands.start("trainer.task", *arguments, more, variables=changed)
    assert error_line(commands.end(started, 64)) == (
        f"error: checkpoint {str(newest)!r}: is of another model: its w has the shape [1], that of "
        "the model now [2]. Change the model back, or choose a new RUN="
    )
    assert sorted(newest.parent.glob("model.ckpt-*")) == before
    commands.run("trainer.task", *arguments, more)
