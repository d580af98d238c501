"""Gradients of rows under an all-reduce, in two processes, against NumPy on all batches."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from pipeline.supervision.ports import Reservation
from tests.pipeline.process_help import ROOT, child_environment
from tests.support.sets import slow
from tests.trainer.distribution import gathering


def _trained(folder, name, dense_rows):
    """Returns the tables that both processes end with, and the collectives of their graphs."""
    with Reservation(2) as reserved:
        addresses = reserved.addresses
    cluster = {"chief": addresses[:1], "worker": addresses[1:]}
    started = []
    for role in cluster:
        settings = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
        command = [sys.executable, "-m", gathering.__name__, name, str(dense_rows), str(folder)]
        environment = {**child_environment(), "TF_CONFIG": settings}
        started.append(
            subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        )
    for process in started:
        _, said = process.communicate(timeout=200)
        assert process.returncode == 0, said[-3000:]
    kinds = json.loads((folder / "ops-0.json").read_text())
    return [np.load(folder / f"{rank}.npy") for rank in (0, 1)], kinds


def _expected(name):
    """Returns the table after the steps, of dense gradients in float64."""
    table = np.ones((gathering.ROWS, gathering.WIDTH))
    squares, linear = np.full_like(table, 0.1), np.zeros_like(table)
    for both in list(zip(*map(gathering.batches, (0, 1)), strict=True))[: gathering.STEPS]:
        gradient = np.zeros_like(table)
        # The optimizer divides the loss by the number of processes.
        np.add.at(gradient, np.concatenate(both), gathering.SCALE / 2)
        if name == "ftrl":
            asked = gradient[:, 0] > 0
            more = squares + gradient**2
            linear += gradient - (np.sqrt(more) - np.sqrt(squares)) / gathering.RATE * table
            moved, squares = -linear * gathering.RATE / np.sqrt(more), more
            # Of rows that no process has asked for even what is no sum of gradients stays.
            table[asked] = moved[asked]
            continue
        if name == "adagrad":
            squares += gradient**2
            gradient /= np.sqrt(squares)
        table -= gathering.RATE * gradient
    return table


@pytest.mark.parametrize(
    ("name", "dense_rows"),
    [("adagrad", 100), slow("sgd", 100), slow("ftrl", 100), slow("adagrad", gathering.ROWS)],
)
def test_both_ways_to_send_them_make_the_same_table(tmp_path, name, dense_rows):
    tables, kinds = _trained(tmp_path, name, dense_rows)
    np.testing.assert_array_equal(*tables)
    np.testing.assert_allclose(tables[0], _expected(name), rtol=1e-6, atol=1e-6)
    assert any("Gather" in kind for kind in kinds) == (dense_rows < gathering.ROWS)
