"""Workers that come and go while a run trains: who is started, and which records it applies."""

from __future__ import annotations

import pytest

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.faults import witness
from tests.faults.conftest import BATCH
from tests.faults.final import Final
from tests.support.sets import matrix


class Requests:
    """Asks for another number of workers as soon as `ready` for it, one number after the other."""

    def __init__(self, path, *wanted):
        self.run, self.wanted, self.asked = RunFolder(str(path)), list(wanted), 0

    def __call__(self, statuses):
        working = {
            name
            for name, status in statuses.items()
            if name.startswith("worker-") and status.state == "training" and status.has_stepped
        }
        if self.wanted and len(working) >= (2, 5)[self.asked]:
            self.asked += 1
            self.run.write(run_folder.SCALE, {"workers": self.wanted.pop(0)})


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["parameter_server", matrix("parameter_server_strategy")])
def test_two_five_one_workers_apply_each_record_once(rig, mode):
    rig.seen.react = Requests(rig.path, 5, 1)
    result = rig.train(
        f"cluster.strategy={mode}",
        "cluster.workers=2",
        "cluster.max_workers=5",
        *witness.SETTINGS,
        "train.steps=null",
        "train.epochs=8",
        "train.save_steps=2000",
        pace=0.08,
    )
    assert rig.restarts == []
    assert {name: len(pids) for name, pids in rig.seen.pids.items()} == dict.fromkeys(
        ["chief-0", "evaluator-0", "ps-0", *(f"worker-{n}" for n in range(5))], 1
    )
    left = [line for line in rig.seen.lines if line.endswith("has left")]
    assert sorted(left) == [f"worker-{n}: has left" for n in range(1, 5)]
    assert all(result["readers"][f"worker-{n}"] > 0 for n in range(5))
    epochs, filled = result["input"][:8], result["input"][8:]
    assert [row["once"] for row in epochs] == [row["due"] for row in epochs]
    assert sum(row["once"] for row in filled) < BATCH
    final = Final(rig)
    final.check(twice=0)
    assert final.applied.exact


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["multi_worker_mirrored", matrix("parameter_server_sync")])
def test_where_all_step_together_they_save_once_and_start_again(rig, mode):
    def react(statuses):
        worker = statuses.get("worker-0")
        if worker is not None and worker.has_stepped and not asked:
            asked.append(worker.step)
            RunFolder(str(rig.path)).write(run_folder.SCALE, {"workers": 2})

    asked: list[int] = []
    rig.seen.react = react
    result = rig.train(
        f"cluster.strategy={mode}",
        *witness.SETTINGS,
        "train.steps=null",
        "train.epochs=4",
        "train.save_steps=2000",
        pace=0.02,
    )
    assert rig.restarts == []
    assert rig.job.cluster.workers is None
    counts = {name: len(pids) for name, pids in rig.seen.pids.items()}
    assert counts["chief-0"] == counts["worker-0"] == 2
    assert counts["evaluator-0"] == counts["worker-1"] == 1
    epochs, filled = result["input"][:4], result["input"][4:]
    assert [row["once"] for row in epochs] == [row["due"] for row in epochs]
    assert sum(row["once"] for row in filled) < 3 * BATCH
    final = Final(rig)
    final.check(twice=0)
    assert final.applied.exact
