"""Which records have trained a model, while processes are slow or killed: the ledger against a
model that counts for itself."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import tensorflow as tf

from pipeline import storage
from pipeline.processes.fork_client import Ended, Spawn
from pipeline.records import tfrecord
from pipeline.supervision.ports import Reservation
from tests import record_sets
from tests.faults import takes, witness
from tests.faults.conftest import BATCH
from tests.faults.final import Final
from tests.support.sets import matrix, slow
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import saved_counts
from trainer.input.dataset import RecordDataset

ASYNC = ("cluster.strategy=parameter_server", "train.save_steps=50")
SHARED = ("parameter_server", "parameter_server_strategy")
WITNESSED = witness.SETTINGS
UNEVEN_PACE = {"chief-0": 0.0, "worker-0": 0.0, "worker-1": 0.1}


# In `make test`, the last epoch is read with slow workers, which get less of it.
@pytest.mark.parametrize("mode", [matrix("parameter_server"), slow("parameter_server_strategy")])
def test_a_slow_worker_reads_less_and_epochs_end_exactly(rig, mode):
    result = rig.train(
        f"cluster.strategy={mode}",
        "train.save_steps=50",
        *WITNESSED,
        "train.steps=400",
        pace={"chief-0": 0.01, "worker-0": 0.15},
    )
    *ended, _, _ = result["input"]
    assert len(ended) >= 2
    assert all(row["once"] == row["due"] for row in ended)
    assert 0 < result["readers"]["worker-0"] < result["readers"]["chief-0"] / 2
    # The save is not waited for: each process may have a batch between update and count.
    Final(rig).check(twice=2 * BATCH)


@pytest.mark.parametrize(
    "mode",
    [
        "parameter_server",
        slow("parameter_server_sync"),
        *map(matrix, ("parameter_server_strategy", "multi_worker_mirrored")),
    ],
)
def test_the_last_epoch_is_read_to_its_end_before_a_later_one_begins(rig, mode):
    settings = (f"cluster.strategy={mode}", "cluster.workers=2", "train.batch_size=23")
    result = rig.train(
        *settings,
        *WITNESSED,
        "train.steps=null",
        "train.epochs=2",
        "train.save_steps=1000",
        pace={"chief-0": 0.01, "worker-0": 0.05, "worker-1": 0.0},
    )
    if mode in SHARED:
        read = result["readers"]
        assert 0 < read["worker-0"] < read["chief-0"] and read["worker-0"] < read["worker-1"]
    first, second, *filled = result["input"]
    assert [row["once"] for row in (first, second)] == [row["due"] for row in (first, second)]
    replicas = 3 if mode in ("parameter_server_sync", "multi_worker_mirrored") else 1
    # The last batches are full.
    assert sum(row["once"] for row in filled) < 23 * replicas
    final = Final(rig)
    assert final.applied.exact
    assert (final.by_name >= 2 * (final.by_name > 0)).all()


@pytest.mark.parametrize("target", [slow("chief-0"), matrix("worker-0"), slow("ps-0")])
def test_a_process_killed_as_training_ends_leaves_no_more_than_its_batch(rig, target):
    fault = {"by": "chief-0", "at": 240, "do": "kill", "target": target}
    settings = ("train.steps=null", "train.epochs=3", "cluster.workers=2")
    rig.train(
        *ASYNC,
        *settings,
        *WITNESSED,
        faults=(fault,),
        pace={"chief-0": 0.0, "worker-0": 0.0, "worker-1": 0.1},
    )
    assert [restart.role for restart in rig.restarts][:1] == [target[:-2]]
    final = Final(rig)
    # Also what was applied while the checkpoint was written that is restored.
    final.check(twice=8 * BATCH)
    assert np.maximum(3 * final.blocks.records - final.counts.reached, 0).sum() <= 3 * BATCH


@pytest.mark.slow
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
    rig.train(*ASYNC, *WITNESSED, "train.steps=400", faults=tuple(faults), pace=0.005)
    assert [restart.role for restart in rig.restarts] == ["worker"] * kills
    Final(rig).check(twice=(kills + 2) * BATCH)


@pytest.mark.slow
def test_what_is_applied_while_a_chief_comes_back_is_read_again_and_counted(rig):
    """However long it takes to restore the parameters: no process applies anything to them then."""
    fault = {"by": "chief-0", "at": 130, "do": "kill", "target": "chief-0"}
    settings = (*WITNESSED, "model.name=tests.faults.injected:slowly_restored", "cluster.workers=2")
    result = rig.train(*ASYNC, *settings, "train.steps=500", faults=(fault,), pace=0.01)
    assert rig.restarts[0].steps_lost > 0
    assert len(rig.seen.pids["worker-0"]) == len(rig.seen.pids["worker-1"]) == 1
    assert sum(row["never"] for row in result["input"]) == 0
    # What was applied while the checkpoint was written, and the last one: neither is waited for.
    Final(rig).check(twice=2 * 3 * BATCH)


@pytest.mark.slow
def test_what_a_worker_held_that_never_comes_back_is_read_by_others(rig):
    faults = tuple(
        {"by": "chief-0", "at": 100, "do": do, "target": "worker-1"}
        for do in ("await_step", "kill")
    )
    settings = ("cluster.workers=2", "cluster.watchdog_seconds=3", "train.steps=800")
    # Slow enough that it is missed, and what it held is read, long before the end.
    codes = rig.train_by_hand(*ASYNC, *WITNESSED, *settings, faults=faults, pace=0.02)
    assert {task for task, code in codes.items() if code} - {"ps-0"} == {"worker-1"}
    # Of the epochs after it was lost, too, each is whole.
    final = Final(rig)
    assert (final.counts.reached >= 4 * final.blocks.records).all()
    final.check(twice=4 * BATCH)
    assert 0 < final.counts.readers[2] < final.counts.readers[1]


# In `make test`, tests/trainer/exactly_once/test_reader.py has no step after the last save.
@pytest.mark.parametrize(
    ("mode", "backup"),
    [
        matrix("parameter_server", 0),
        slow("parameter_server_strategy", 0),
        slow("parameter_server_sync", 1),
    ],
)
def test_training_that_ends_early_is_saved_once_and_exactly(rig, mode, backup):
    settings = (*WITNESSED, f"cluster.strategy={mode}", f"cluster.backup_workers={backup}")
    settings += ("cluster.workers=2", "train.max_seconds=4")
    rig.train(*settings, "train.steps=100000", "train.save_steps=100000", pace=0.005)
    state = tf.train.get_checkpoint_state(str(rig.path))
    steps = [checkpoint_files.read_step(path) for path in state.all_model_checkpoint_paths]
    assert steps[0] == 0
    assert len(steps) == 2
    final = Final(rig)
    assert final.by_name.sum() == final.counts.applied.sum()
    if not backup:
        final.check(twice=0)


@pytest.mark.parametrize(
    ("model", "backup"),
    [
        slow("tests.faults.injected:paused", 0),
        matrix(witness.MODEL, 1),
        matrix("tests.faults.injected:dense", 1),
    ],
)
def test_each_checkpoint_has_the_steps_that_it_counts(rig, model, backup):
    """Gradients of a process that pauses after a step are in the parameters. Processes that can
    make steps without the chief make none while it saves."""
    settings = (*WITNESSED, f"model.name={model}", f"cluster.backup_workers={backup}")
    settings += ("cluster.strategy=parameter_server_sync", "cluster.workers=2", "train.steps=60")
    rig.train(*settings, "train.save_steps=1", "train.keep_checkpoints=70")
    blocks = RecordDataset(rig.records.job, rig.records.folder, rig.records.contents).list_blocks(
        "train"
    )
    state = tf.train.get_checkpoint_state(str(rig.path))
    saved = list(state.all_model_checkpoint_paths)
    assert len(saved) > 10
    for checkpoint in saved:
        counts = saved_counts.read_counts(checkpoint, blocks)
        step = int(tf.train.load_variable(checkpoint, "global_step"))
        assert counts.applied.sum() == step * (3 - backup) * BATCH, step
        assert counts.reached.sum() >= counts.applied.sum()
        assert backup or counts.reached.sum() == counts.applied.sum(), step
        assert witness.read_applied(checkpoint).sum() == counts.applied.sum(), step


# In `make test`, tests/trainer/optimizers/test_places.py has one process.
@pytest.mark.parametrize(
    ("model", "workers", "backup", "pace"),
    [
        slow(witness.MODEL, 1, 1, 0.0),
        matrix(witness.MODEL, 2, 1, 0.0),
        matrix(witness.MODEL, 2, 1, UNEVEN_PACE),
        matrix("tests.faults.injected:dense", 1, 1, 0.0),
        matrix("tests.faults.injected:dense", 2, 1, 0.0),
        matrix("tests.faults.injected:dense", 2, 1, UNEVEN_PACE),
    ],
)
def test_of_gradients_that_come_late_nothing_is_applied_nor_counted_as_such(
    rig, model, workers, backup, pace
):
    cluster = (f"cluster.workers={workers}", f"cluster.backup_workers={backup}")
    settings = ("cluster.strategy=parameter_server_sync", "train.steps=150", "train.save_steps=50")
    result = rig.train(*WITNESSED, f"model.name={model}", *cluster, *settings, pace=pace)
    final = Final(rig)  # fails for a part of a record
    applied = (1 + workers - backup) * BATCH * result["final_step"]
    assert final.by_name.sum() == final.counts.applied.sum() == applied
    # What was dropped was handed out, once; no checkpoint is ahead of what a slow process reads.
    assert final.counts.reached.sum() > applied
    for saved in tf.train.get_checkpoint_state(str(rig.path)).all_model_checkpoint_paths:
        counts = saved_counts.read_counts(saved, final.blocks)
        assert counts.readers.sum() == counts.reached.sum(), saved
    assert sum(row["more"] for row in result["input"]) == 0


def _wait_for_end(server):
    while not any(isinstance(event, Ended) for event in server.wait(1.0)):
        pass


@pytest.mark.slow
def test_a_reader_killed_while_it_takes_holds_all_it_was_dealt(trainers, tmp_path):
    """Records that no reader holds would never be read."""
    log = tmp_path / "reader.log"
    with Reservation(2) as reserved:
        cluster = {"ps": reserved.addresses[:1], "worker": reserved.addresses[1:]}
    server = tf.distribute.Server(cluster, job_name="ps", task_index=0)
    dispatcher, made, session = takes.session(server.target, "/job:ps/task:0")
    session.run(made)
    dispatcher.close(session)
    dispatcher.lay_out(session)
    last = -1
    for _ in range(15):
        trainers.spawn(Spawn("reader", takes.ENTRY, (cluster,), str(log)))
        enough = last + 50 * takes.CHUNK
        while last < enough:
            assert not any(isinstance(e, Ended) for e in trainers.wait(0)), log.read_text()
            last = max(dispatcher.begin(session).held, default=-1)
        trainers.signal("reader", signal.SIGKILL)
        _wait_for_end(trainers)
        held = dispatcher.begin(session).held
        assert held == list(range(held[0], held[0] + takes.WIDTH))
        next_one, last = dispatcher.take(session, held[takes.CHUNK :])
        assert next_one == held[-1] + 1, "what was dealt last is held by no reader"
    session.close()


def _shared_unevenly(small, folder, shards):
    """The small records again, in shards of so many records each, in blocks of 16."""
    payloads = [
        payload
        for shard in small.contents.split("train").shards
        for payload in tfrecord.read(storage.join(small.folder, shard.path))
    ]
    ends = np.cumsum(shards)
    assert ends[-1] <= len(payloads)
    cut = [payloads[end - count : end] for end, count in zip(ends, shards, strict=True)]
    data = small.job.data
    record_sets.write(
        folder,
        {"train": cut, "eval": [payloads[:50]], "test": [payloads[50:90]]},
        block_records=16,
        columns=data.columns,
        label=data.label,
    )
    return str(folder)


# One of most records, one of a single one, two of none; the last batch of an epoch is never full.
UNEVEN = (1, 0, 1500, 17, 0)
# Less than what three processes need to wait for each other.
FEW = (40, 13)


def _train_three(rig, folder, mode, epochs, due):
    replicas = 1 if mode in SHARED else 3
    steps = epochs * due // (BATCH * replicas) + 1
    settings = (f"cluster.strategy={mode}", "cluster.workers=2", f"train.steps={steps}")
    result = rig.train(*settings, "train.save_steps=1000", *WITNESSED, records=folder)
    assert rig.restarts == []
    assert sum(result["readers"].values()) == result["final_step"] * BATCH * replicas
    return result


@pytest.mark.parametrize(
    "mode",
    [slow("parameter_server"), matrix("parameter_server_strategy"), "multi_worker_mirrored"],
)
def test_each_record_once_whatever_the_shards(rig, tmp_path, mode):
    folder = _shared_unevenly(rig.records, tmp_path / "records", UNEVEN)
    result = _train_three(rig, folder, mode, 3, sum(UNEVEN))
    ended = [row for row in result["input"] if not row["left"]]
    assert len(ended) >= 2
    assert all(row["once"] == row["due"] == sum(UNEVEN) for row in ended)
    final = Final(rig, folder)
    assert (final.counts.applied == final.counts.reached).all()
    final.check(twice=3 * BATCH if mode in SHARED else 0)


# In `make test`, tests/trainer/exactly_once/test_assignments.py shares too little to take turns.
@pytest.mark.parametrize(
    "mode",
    [
        matrix("parameter_server"),
        matrix("parameter_server_strategy"),
        slow("parameter_server_sync"),
    ],
)
def test_very_few_records_are_shared_without_waiting(rig, tmp_path, mode):
    """A batch of each is more than an epoch; all records are used alike nevertheless."""
    folder = _shared_unevenly(rig.records, tmp_path / "records", FEW)
    _train_three(rig, folder, mode, 30, sum(FEW))
    final = Final(rig, folder)
    shared = np.bincount(final.names, minlength=witness.NAMES)
    applied = (final.by_name[final.names] / shared[final.names]).round()
    assert applied.max() - applied.min() <= 6


REPLICAS = ("cluster.devices=[/cpu:0,/cpu:1]", *WITNESSED, "train.steps=null", "train.epochs=3")


def _check_replicas(rig, result, *, due, examples):
    """Each record of the epochs was applied once; a step is of so many `examples`."""
    epochs, filled = result["input"][:3], result["input"][3:]
    assert [row["once"] for row in epochs] == [due] * 3
    assert sum(row["once"] for row in filled) == result["final_step"] * examples - 3 * due
    final = Final(rig)
    final.check(twice=0)
    assert final.applied.exact


@pytest.mark.slow
def test_replicas_in_each_of_several_processes_are_counted(rig):
    """Two processes with two logical devices each, which stand for GPUs."""
    mode = "cluster.strategy=multi_worker_mirrored"
    result = rig.train(mode, *REPLICAS, "train.save_steps=50")
    due = result["input"][0]["due"]
    assert result["final_step"] == -(-3 * due // (4 * BATCH))
    _check_replicas(rig, result, due=due, examples=4 * BATCH)
    assert result["readers"]["chief-0"] == result["readers"]["worker-0"]


@pytest.mark.slow
def test_replicas_of_processes_that_step_by_themselves_are_counted(rig):
    """The last batches, too: of both replicas, and full."""
    mode = "cluster.strategy=parameter_server_strategy"
    pace = {"chief-0": 0.0, "worker-0": 0.05}
    result = rig.train(mode, *REPLICAS, "train.save_steps=1000", pace=pace)
    due = result["input"][0]["due"]
    assert result["final_step"] == -(-3 * due // (2 * BATCH))
    _check_replicas(rig, result, due=due, examples=2 * BATCH)
    assert result["readers"]["chief-0"] > result["readers"]["worker-0"] > 0
