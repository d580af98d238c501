"""Which records have trained a model, while processes are slow or killed: the ledger against a
model that counts for itself."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import records, storage
from tests.faults import injected
from trainer import checkpoints, ledger
from trainer.input import Records

ASYNC = ("cluster.strategy=parameter_server", "train.save_steps=50")
BATCH = 32  # of `COMMON`
WITNESSED = "model.name=tests.faults.injected:witnessed"


def _names(small):
    """The number that names each record, `[records]`, and its block."""
    names = []
    for shard in small.contents.split("train").shards:
        for payload in records.read(storage.join(small.folder, shard.path)):
            example = tf.train.Example.FromString(payload)
            (image,) = example.features.feature["image"].bytes_list.value
            pixels = np.frombuffer(image, np.uint8).reshape(28, 28, 1).astype(np.int64)
            names.append(int((pixels * injected.PIXELS).sum() % injected.NAMES))
    return np.array(names)


class _Final:
    """What the final checkpoint of a run has, of the ledger and of the witness."""

    def __init__(self, rig):
        small = rig.records
        self.blocks = Records(small.job, small.folder, small.contents).blocks("train")
        saved = checkpoints.newest(str(rig.path))
        self.counts = ledger.counts_in(saved, self.blocks)
        witness = tf.train.load_variable(saved, injected.WITNESS)
        names = _names(small)
        block_of = np.repeat(np.arange(len(self.blocks.records)), self.blocks.records)
        # Few records share a name; those cannot be told apart.
        alone = np.bincount(names, minlength=injected.NAMES)[names] == 1
        assert alone.mean() > 0.9
        self.block_of, self.applied = block_of[alone], witness[names[alone]]
        self.total = int(witness.sum())

    def check(self, twice):
        """Of finished epochs no record is missing; at most `twice` were applied once more."""
        assert (self.counts.applied == self.counts.reached).all()
        epochs, begun = np.divmod(self.counts.reached, self.blocks.records)
        assert (self.applied >= epochs[self.block_of]).all(), "a record was left out"
        most = epochs + (begun > 0)
        assert np.maximum(self.applied - most[self.block_of], 0).sum() <= twice
        assert 0 <= self.total - self.counts.applied.sum() <= twice


def test_a_slow_worker_reads_less_and_epochs_end_exactly(rig):
    result = rig.train(
        *(*ASYNC, WITNESSED, "train.steps=400"), pace={"chief-0": 0.01, "worker-0": 0.15}
    )
    *ended, _, _ = result["input"]
    assert len(ended) >= 2
    assert all(row["once"] == row["due"] for row in ended)
    assert 0 < result["readers"]["worker-0"] < result["readers"]["chief-0"] / 2
    # The save is not waited for: each process may have a batch between update and count.
    _Final(rig).check(twice=2 * BATCH)


@pytest.mark.parametrize("target", ["worker-0"])
def test_a_killed_worker_doubles_no_more_than_its_batch(rig, target):
    kills = 3
    faults = []
    for number in range(kills):
        at = 60 + 60 * number
        faults += [
            {"by": "chief-0", "at": at, "do": "kill", "target": target},
            {"by": "chief-0", "at": at + 5, "do": "await_return", "target": target},
        ]
    rig.train(*ASYNC, WITNESSED, "train.steps=400", faults=tuple(faults), pace=0.005)
    assert [restart.role for restart in rig.restarts] == ["worker"] * kills
    _Final(rig).check(twice=(kills + 2) * BATCH)


def test_a_chief_that_falls_back_takes_the_count_back_too(rig):
    """What the checkpoint does not hold is read again."""
    fault = {"by": "chief-0", "at": 130, "do": "kill", "target": "chief-0"}
    result = rig.train(*ASYNC, WITNESSED, "train.steps=400", faults=(fault,), pace=0.005)
    assert rig.restarts[0].steps_lost > 0
    final = _Final(rig)
    # One batch of the worker, in flight while the parameters went back, and those that were
    # applied while checkpoints were read from under the processes.
    doubled = np.maximum(final.counts.applied - final.counts.reached, 0).sum()
    assert doubled <= 2 * BATCH
    assert sum(row["never"] for row in result["input"]) == 0
