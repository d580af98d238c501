"""Save under each mode, resume under each: weights, slots, step and position are taken over.

Compared by value, before the first step, in the middle of an epoch. In `make test` a single process
saves and several resume; in `make test-slow` each other mode saves or resumes once, with more
processes or with fewer. `make test-matrix` has the rest of all 64.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.processes.fork_client import StopRequest
from pipeline.runs.run_folder import RunFolder
from tests.e2e.conftest import MODES
from tests.faults.conftest import Rig
from tests.support.sets import matrix_unless
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import saved_counts
from trainer.input.dataset import RecordDataset

STEPS, MORE_STEPS = 40, 60
SAVED = (
    f"train.steps={STEPS}",
    "train.batch_size=32",
)
RESUMED = ("train.batch_size=64",)
# Both: slots, nothing saved or evaluated on the way, and what was restored is kept.
ALWAYS = (
    "train.optimizer={name: adam, learning_rate: 0.001}",
    "train.save_steps=1000",
    "eval.throttle_seconds=1000",
    "train.hooks=[tests.e2e.at_start:AtStart]",
)
# Besides what each mode of `MODES` has; so 1, 2 and 3 processes that train resume as 1, 2 and 3.
OF_SAVED = {"parameter_server": ("cluster.workers=2",), "one_device": ()}
OF_RESUMED = {"parameter_server_strategy": ("cluster.workers=2",), "one_device": ()}
OWN = {mode: tuple(o for o in MODES[mode] if o.startswith("cluster.")) for mode in MODES}
ASYNCHRONOUS = ("parameter_server", "parameter_server_strategy")

# Each mode saves or resumes once.
CHOSEN = list(zip(list(MODES)[1::2], [*list(MODES)[4::2], *list(MODES)[:4:2]], strict=True))
REPRESENTATIVE = ("one_device", "multi_worker_mirrored")


def _readers(job: config.Config) -> int:
    return topology.role_counts(job.cluster)[topology.WORKER] + 1


def test_each_mode_saves_or_resumes_with_more_processes_and_with_fewer(small_records):
    assert {mode for pair in CHOSEN for mode in pair} == set(MODES)
    assert set(MODES) == set(strategy_table.STRATEGIES)
    assert REPRESENTATIVE in CHOSEN
    changes = set()
    for saved, resumed in CHOSEN:
        before = _config(small_records, saved, OF_SAVED)
        after = _config(small_records, resumed, OF_RESUMED)
        changes.add(np.sign(_readers(after) - _readers(before)))
        assert saved != resumed
    assert changes == {-1, 1}


def _config(small, mode, more):
    settings = (*OWN[mode], *more.get(mode, ()))
    return small.config(f"cluster.strategy={mode}", *SAVED, *settings)


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run, and what its processes had restored when they began."""

    path: pathlib.Path
    job: config.Config

    @property
    def checkpoint(self) -> str:
        return checkpoint_files.find_newest(str(self.path))

    def at_start(self, task: str) -> dict[str, np.ndarray]:
        return dict(np.load(self.path / "at_start" / f"{task}.npz"))


@pytest.fixture(scope="session")
def saved_by(small_records, trainers):
    """Returns a function from a mode to its saved run, which is made when first asked for."""
    made: dict[str, Run] = {}

    def saved(mode: str) -> Run:
        if mode not in made:
            settings = (*SAVED, *OWN[mode], *OF_SAVED.get(mode, ()))
            made[mode] = _train(small_records, trainers, f"saved-{mode}", mode, settings)
        return made[mode]

    return saved


def _train(small, trainers, name: str, mode: str, settings: tuple[str, ...]) -> Run:
    """Real processes under the launcher's supervisor; forked, so that none imports TensorFlow."""
    path = small.storage / "runs" / name.replace("_", "-")
    with StopRequest().install() as stop:
        rig = Rig(path, trainers, stop, small)
        rig.train(*ALWAYS, f"cluster.strategy={mode}", *settings)
    assert rig.restarts == []
    return Run(path, RunFolder(str(path)).read_config())


def _copy(run: Run, name: str) -> None:
    """Copies a run under another name; the state of checkpoints has absolute paths."""
    path = run.path.parent / name
    shutil.copytree(run.path, path, ignore=shutil.ignore_patterns("at_start", "export", "logs"))
    state = (path / "checkpoint").read_text()
    (path / "checkpoint").write_text(state.replace(str(run.path), str(path)))


@pytest.mark.parametrize(
    ("saved", "resumed"),
    [
        pair if pair == REPRESENTATIVE else matrix_unless(pair in CHOSEN, *pair)
        for pair in itertools.product(MODES, MODES)
    ],
)
def test_the_other_mode_resumes_where_the_first_stopped(
    saved_by, small_records, trainers, saved, resumed
):
    first = saved_by(saved)
    name = f"{saved}-to-{resumed}".replace("_", "-")
    _copy(first, name)
    blocks = RecordDataset(first.job, small_records.folder, small_records.contents).list_blocks(
        "train"
    )
    before = _tensors(first.checkpoint)
    step = int(before["global_step"])
    assert any("Adam" in tensor for tensor in before)
    # In the middle of an epoch: some of it is done, some is not.
    assert before[saved_counts.APPLIED].sum() % blocks.total_records > 0

    settings = (*RESUMED, *OWN[resumed], *OF_RESUMED.get(resumed, ()))
    settings = (f"train.steps={step + MORE_STEPS}", *settings)
    second = _train(small_records, trainers, name, resumed, settings)

    _assert_restored(before, second.at_start("chief-0"))
    _assert_exact(before, _tensors(second.checkpoint), blocks, second.job)


def _tensors(checkpoint: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(checkpoint)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _assert_restored(saved: dict[str, np.ndarray], restored: dict[str, np.ndarray]) -> None:
    """Every variable of the checkpoint, in every copy and part, and no other."""
    seen = set()
    for key, value in restored.items():
        name, _, start = key.partition("#")[0].partition("|")
        expected = saved[name]
        if start:
            expected = expected[int(start) : int(start) + len(value)]
        np.testing.assert_array_equal(value, expected, err_msg=key)
        seen.add(name)
    assert seen == set(saved)


def _assert_exact(before, after, blocks, job) -> None:
    """What was left of the epoch has been read, once, and nothing twice."""
    steps = int(after["global_step"] - before["global_step"])
    assert steps >= MORE_STEPS
    begun = before[saved_counts.APPLIED].astype(np.int64)
    ended = after[saved_counts.APPLIED].astype(np.int64)
    assert (ended >= begun).all()
    due = steps * topology.examples_per_step(job)
    # Processes that are not waited for may have counted a batch that the last save has not seen.
    late = 2 * job.train.batch_size if job.cluster.strategy in ASYNCHRONOUS else 0
    assert abs(int((ended - begun).sum()) - due) <= late
    epoch = int((begun // blocks.records).min())
    if not late:
        assert (ended >= (epoch + 1) * blocks.records).all()
    # No block is more than the epoch under way ahead of the one that is farthest behind.
    epochs = -(-ended // blocks.records)
    assert epochs.max() - (ended // blocks.records).min() <= 2
