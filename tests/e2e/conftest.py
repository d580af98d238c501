"""One real run of every mode, through the command line, shared by all tests that look at one."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from pipeline import config
from tests.faults.conftest import trainers  # noqa: F401
from tests.pipeline.process_help import ROOT, child_environment
from tests.support.sets import slow_unless

STEPS, BATCH, SAVE_STEPS, RATE = 300, 32, 100, 0.5
COMMON = (
    f"train.steps={STEPS}",
    f"train.batch_size={BATCH}",
    f"train.save_steps={SAVE_STEPS}",
    "train.summary_steps=50",
    f"train.optimizer={{name: sgd, learning_rate: {RATE}}}",
    "train.hooks=[tests.e2e.first_step:FirstStep]",
    "train.profile={start: 20, stop: 22}",
    "train.log_device_placement=true",
)
MODES = {
    "none": (),
    # As many steps and as large batches, said in other words.
    "one_device": ("train.steps=null", "train.epochs=3.37"),
    "mirrored": (
        "cluster.eval_strategy=mirrored",
        "train.batch_size_is=global",
        f"train.batch_size={2 * BATCH}",
    ),
    "central_storage": ("cluster.eval_strategy=central_storage",),
    "multi_worker_mirrored": ("train.steps=null", "train.epochs=6.74"),
    "parameter_server": ("cluster.ps=2", "cluster.partition_bytes=100000"),
    "parameter_server_sync": (),
    "parameter_server_strategy": (),
}
# Those that `make test` looks at: replicas in one process, a gang, and processes that do not wait
# for each other. The others are in `make test-slow`.
REPRESENTATIVE = ("mirrored", "multi_worker_mirrored", "parameter_server")


def modes(*names: str) -> list[Any]:
    """Returns modes as values of a parameter; all but the representative ones are slow."""
    return [slow_unless(name in REPRESENTATIVE, name) for name in names]


@dataclasses.dataclass(frozen=True)
class ModeRun:
    """A finished run, and what it printed."""

    mode: str
    path: pathlib.Path
    job: config.Config
    output: str

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.path / "run.json").read_text())

    def status(self, task: str) -> dict[str, Any]:
        return json.loads((self.path / "status" / f"{task}.json").read_text())

    def first_step(self, task: str = "chief-0") -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the variables before and after the first step of a process."""
        return self._read_kept(task, "before"), self._read_kept(task, "after")

    def first_batch(self, task: str) -> dict[str, Any]:
        """Returns `image` and `label` of what a process read for its first step."""
        return self._read_kept(task, "batch")

    def _read_kept(self, task: str, when: str) -> dict[str, Any]:
        folder = self.path.parent.parent / "first_step" / self.mode
        return dict(np.load(folder / f"{task}.{when}.npz"))


@pytest.fixture(scope="session")
def run_of(small_records):
    """Returns a function from a mode to its run, which is made when first asked for."""
    made: dict[str, ModeRun] = {}

    def run(mode: str) -> ModeRun:
        if mode not in made:
            made[mode] = _launch(small_records, mode)
        return made[mode]

    return run


def _launch(small, mode: str) -> ModeRun:
    overrides = (*COMMON, *MODES[mode])
    name = f"mode-{mode.replace('_', '-')}"
    arguments = [f"--config={small.config_path}", f"--storage={small.storage}", f"--run={name}"]
    arguments += [f"--strategy={mode}", *(f"--set={override}" for override in overrides)]
    environment = {
        **child_environment(),
        "PIPELINE_FIRST_STEP": str(small.storage / "first_step" / mode),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.launch", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    path = small.storage / "runs" / name
    logs = "".join(log.read_text()[-3000:] for log in path.glob("logs/*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    job = small.config(*overrides, f"cluster.strategy={mode}")
    return ModeRun(mode, path, job, done.stdout)
