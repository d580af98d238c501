"""Save under one mode, go on under another: each mode saves once and resumes once.

In the middle of an epoch, and with another number of processes. Weights, slots and global step are
taken over by restoring at all, with all variables of the graph in the checkpoint; the position in
the data is compared block by block.
"""

import shutil
import subprocess
import sys

import pytest

from pipeline import topology
from pipeline.run_folder import RunFolder
from tests.e2e.conftest import MODES
from tests.pipeline.process_help import ROOT, child_environment
from trainer import checkpoints, ledger, order
from trainer.input import Records

# A ring through all modes: whose checkpoint is taken, and what goes on from it.
RING = list(zip(MODES, [*list(MODES)[3:], *list(MODES)[:3]], strict=True))
MORE_STEPS = 60
ASYNCHRONOUS = ("parameter_server", "parameter_server_strategy")


def test_each_mode_saves_once_and_resumes_once():
    assert {saved for saved, _ in RING} == {after for _, after in RING} == set(topology.STRATEGIES)
    assert all(saved != after for saved, after in RING)


@pytest.mark.parametrize(("saved", "resumed"), RING)
def test_the_other_mode_goes_on_where_the_first_stopped(run_of, small_records, saved, resumed):
    first = run_of(saved)
    path = first.path.parent / f"{saved}-to-{resumed}".replace("_", "-")
    shutil.copytree(first.path, path)
    state = (path / "checkpoint").read_text()
    (path / "checkpoint").write_text(state.replace(str(first.path), str(path)))
    blocks = Records(first.job, small_records.folder, small_records.contents).blocks("train")
    begun = checkpoints.newest(str(path))
    before, step = ledger.applied_in(begun, blocks), checkpoints.step_of(begun)

    job = _go_on(small_records, path.name, resumed, step + MORE_STEPS)

    ended = checkpoints.newest(str(path))
    after, end = ledger.applied_in(ended, blocks), checkpoints.step_of(ended)
    assert end >= step + MORE_STEPS
    assert (after >= before).all()
    taken = int((after - before).sum())
    due = (end - step) * topology.examples_per_step(job)
    # Processes that are not waited for may have counted a batch that the last save has not seen.
    assert abs(taken - due) <= 2 * job.train.batch_size
    if resumed in ASYNCHRONOUS:
        return  # their processes do not wait for each other at the end of an epoch
    # What the first mode had left of its epoch was read before anything of later ones.
    epoch = int((before // blocks.records).min())
    assert order.ledger(blocks, after)[epoch].left == 0


def _go_on(small, run, mode, steps):
    arguments = [f"--config={small.config_path}", f"--storage={small.storage}", f"--run={run}"]
    overrides = (f"train.steps={steps}", "train.batch_size=64", "train.save_steps=1000")
    arguments += [f"--strategy={mode}", *(f"--set={override}" for override in overrides)]
    subprocess.run(
        [sys.executable, "-m", "pipeline.launch", *arguments],
        check=True,
        cwd=ROOT,
        env=child_environment(),
        timeout=240,
    )
    return RunFolder(str(small.storage / "runs" / run)).read_config()
