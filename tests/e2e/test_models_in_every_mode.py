"""The shipped models of declared features in real processes: what they read, save and answer.

In `make test-slow` each has a mode with several processes, and each such mode a model.
`make test-matrix` has the other pairs, those in one process too.
"""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.models import MODELS
from pipeline.processes.fork_client import StopRequest
from tests.e2e import click_table
from tests.faults.conftest import Rig
from tests.support.sets import matrix_unless
from trainer.checkpoints import checkpoint_files

STRATEGIES = strategy_table.STRATEGIES
# Tables and vectors of places are cut: a server has half of each.
_CUT = ("cluster.ps=2", "cluster.partition_bytes=40")
SETTINGS = {
    "parameter_server": _CUT,
    "parameter_server_sync": _CUT,
    "multi_worker_mirrored": ("train.hooks=[tests.e2e.at_end:AtEnd]",),
}
IN_TURN = [
    ("deepfm", "parameter_server"),
    ("dcn", "parameter_server_sync"),
    ("din", "multi_worker_mirrored"),
    ("mmoe", "parameter_server_strategy"),
    # And on asynchronous servers, in test_two_tower.py.
    ("two_tower", "multi_worker_mirrored"),
]
ALL = list(itertools.product(click_table.MODELS, STRATEGIES))
EPOCHS = 2
ALWAYS = (
    "train.optimizer={name: adam, learning_rate: 0.02}",
    "train.save_steps=1000",
    "eval.throttle_seconds=1000",
)

AWAIT_WORKER = {"by": "chief-0", "at": 3, "do": "await_step", "target": "worker-0"}


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """Returns a function from a model to its job, which is made when first asked for."""
    folder, made = tmp_path_factory.mktemp("clicks"), {}

    def prepare(model: str) -> click_table.Clicks:
        if model not in made:
            made[model] = click_table.write(folder, model)
        return made[model]

    return prepare


def test_each_model_has_a_mode_of_several_processes_and_each_mode_a_model():
    others = {"linear", "dnn", "dnn_linear_combined"}
    shipped = {name for name, settings in MODELS.items() if settings.of_features}
    assert {*click_table.MODELS} == shipped - others
    assert {model for model, _ in IN_TURN} == {*click_table.MODELS}
    several = {name for name, strategy in STRATEGIES.items() if strategy.own_evaluator}
    assert {mode for _, mode in IN_TURN} == several


@pytest.mark.parametrize(("model", "mode"), [matrix_unless(pair in IN_TURN, *pair) for pair in ALL])
def test_it_reads_each_record_as_often_as_it_should_and_exports_what_it_has_saved(
    clicks, trainers, tmp_path, model, mode
):
    given = clicks(model)
    with StopRequest().install() as stop:
        rig = Rig(tmp_path / "run", trainers, stop, given)
        settings = (*ALWAYS, f"cluster.strategy={mode}", *SETTINGS.get(mode, ()))
        if STRATEGIES[mode].asynchronous:
            # Or the chief has read all before the worker has started.
            pace = {"chief-0": 0.05, "worker-0": 0.0}
            result = rig.train(*settings, faults=(AWAIT_WORKER,), pace=pace)
            assert result["readers"]["worker-0"] > 0
        else:
            result = rig.train(*settings)
    assert rig.restarts == []
    checkpoint = checkpoint_files.find_newest(str(rig.path))
    read = _read(checkpoint)
    assert read["global_step"] == result["final_step"] > 0
    _check_ledger(result, given, rig.job)
    _check_parameters(read, rig.path, mode)
    _check_export(rig.path / result["exports"]["final"], read, given)


def _read(checkpoint: str) -> click_table.Tensors:
    reader = tf.train.load_checkpoint(checkpoint)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _check_ledger(result, given, job) -> None:
    """Each record of the two epochs once, and of a third what fills the last batches."""
    due = given.contents.split("train").records
    rows, readers = result["input"], result["readers"]
    assert [row["once"] for row in rows[:EPOCHS]] == [due] * EPOCHS
    assert not any(row["more"] or row["never"] or row["skipped"] for row in rows[:EPOCHS])
    of_step = topology.examples_per_step(job)
    once = sum(row["once"] for row in rows)
    assert once == sum(readers.values()) == result["final_step"] * of_step
    assert 0 <= once - EPOCHS * due < of_step
    if STRATEGIES[job.cluster.strategy].reduces_between_processes:
        assert list(readers.values()) == [once // 2] * 2
    elif STRATEGIES[job.cluster.strategy].synchronous and len(readers) > 1:
        # A step takes the next gradients, of whichever process: one may have given two.
        assert min(readers.values()) > once // 3


def _check_parameters(read: click_table.Tensors, path: pathlib.Path, mode: str) -> None:
    """All of them have learned, and processes that each have all have the same."""
    slots = [name.removesuffix("/Adam") for name in read if name.endswith("/Adam")]
    assert slots
    for name in slots:
        assert read[f"{name}/Adam_1"].any(), name
        assert read[name].any(), name
    if mode == "multi_worker_mirrored":
        for task in ("chief-0", "worker-0"):
            found = dict(np.load(path / "at_end" / f"{task}.npz"))
            assert sorted(found) == sorted(slots)
            for name, value in found.items():
                np.testing.assert_array_equal(value, read[name], err_msg=f"{task} {name}")


def _check_export(path: pathlib.Path, read: click_table.Tensors, given) -> None:
    rows = click_table.make_rows(60, seed=5)
    wanted = click_table.answer(given.model, read, rows, given.contents)
    found = tf.saved_model.load(str(path)).signatures["serving_default"](**click_table.feed(rows))
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name].numpy(), values, rtol=1e-4, atol=2e-5, err_msg=name)
        # It tells rows apart, so that what does not reach the answers would show.
        assert np.ptp(values, axis=0).max() > 1e-3, name
