"""Real trainers under a real supervisor, forked from one process that has imported TensorFlow."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import signal
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import config_file, strategy_table
from pipeline.processes import environment
from pipeline.processes.fork_client import Ended, ForkServer, Spawn, StopRequest
from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.supervision import restart_policy, watchdog
from pipeline.supervision.plan import RunSpec
from pipeline.supervision.ports import Reservation
from pipeline.supervision.supervisor import Supervisor
from tests.faults import injected
from tests.pipeline.process_help import child_environment, is_alive

BATCH = 32
COMMON = (
    "train.summary_steps=50",
    f"train.batch_size={BATCH}",
    f"train.hooks=[{injected.HOOK}]",
    "train.optimizer={name: sgd, learning_rate: 0.1}",
    # The first checkpoint and the last are evaluated, and few in between: on two processors an
    # evaluator that never rests takes half of what the others have.
    "eval.throttle_seconds=10",
)
# For tests of the evaluator.
EVERY_CHECKPOINT = "eval.throttle_seconds=0"


def check_ledger(rows: list[dict[str, int]], twice: int = 0) -> None:
    """Of what has been read no record was left out; at most `twice` were applied more than once.

    `rows` is the `input` of a run that has begun a second epoch.
    """
    assert len(rows) > 1
    for row in rows:
        assert row["once"] + row["more"] == row["due"] - row["left"]
    assert sum(row["more"] for row in rows) <= twice


@dataclasses.dataclass
class Seen:
    """An observer that keeps what it is told."""

    lines: list[str] = dataclasses.field(default_factory=list)
    # Task name to the process ids it has had, in order.
    pids: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    # Called with the statuses at every look.
    react: Callable[[Mapping[str, Any]], None] = lambda statuses: None

    def show_line(self, line: str) -> None:
        self.lines.append(line)

    def show(self, statuses) -> None:
        for name, status in statuses.items():
            known = self.pids.setdefault(name, [])
            if status.pid not in known:
                known.append(status.pid)
            if status.note and status.note not in self.notes:
                self.notes.append(status.note)
        self.react(statuses)


@dataclasses.dataclass
class Rig:
    """One run, which faults are put into."""

    path: pathlib.Path
    server: ForkServer
    stop: StopRequest
    records: Any
    seen: Seen = dataclasses.field(default_factory=Seen)
    boss: Supervisor | None = None
    job: config.Config | None = None

    def train(
        self,
        *overrides: str,
        faults: tuple[dict[str, Any], ...] = (),
        pace: float | dict[str, float] = 0.0,
        records: str = "",
        **options: Any,
    ) -> dict[str, Any]:
        """Trains to the end and returns the result; fails if a process is left over."""
        job, run = self._prepare(overrides, faults, pace)
        cluster = job.cluster
        strategy = strategy_table.STRATEGIES[cluster.strategy]
        self.boss = Supervisor(
            RunSpec(
                run=run,
                records=records or self.records.folder,
                entry=injected.ENTRY,
                counts=topology.role_counts(cluster),
                worker_places=topology.worker_places(cluster),
                steps=job.train.steps,
                logs=str(self.path / "logs"),
                patience=watchdog.HangLimits(
                    cluster.watchdog_seconds, cluster.watchdog_start_seconds
                ),
            ),
            self.server,
            self.stop,
            observer=self.seen,
            **{"policy": restart_policy.Policy(strategy.restart_unit), **options},
        )
        try:
            self.boss.run()
        finally:
            left = [pid for pids in self.seen.pids.values() for pid in pids if is_alive(pid)]
            assert left == [], "processes outlive the supervisor"
        return run.read("RESULT.json")

    def train_by_hand(
        self, *overrides: str, faults: tuple[dict[str, Any], ...] = (), pace: float = 0.0
    ) -> dict[str, int]:
        """Trains without a supervisor that restarts processes; returns the exit codes, by task."""
        job, run = self._prepare(overrides, faults, pace)
        counts = topology.role_counts(job.cluster)
        addressed = sum(counts.values()) - counts[topology.EVALUATOR]
        codes: dict[str, int] = {}
        with Reservation(addressed) as reserved:
            cluster = topology.cluster_of(counts, reserved.addresses)
            for role, count in counts.items():
                for task in (topology.Task(role, index, cluster) for index in range(count)):
                    log = str(self.path / "logs" / f"{task.name}.log")
                    arguments = (run.path, self.records.folder, task)
                    self.server.spawn(Spawn(task.name, injected.ENTRY, arguments, log))
            while len(codes) < sum(counts.values()):
                ended = [e for e in self.server.wait(1.0) if isinstance(e, Ended)]
                codes |= {event.name: event.code for event in ended}
                if "evaluator-0" in codes:
                    self.server.signal("ps-0", signal.SIGTERM)
        return codes

    def _prepare(self, overrides, faults, pace):
        self.job = job = self.records.config(*COMMON, *overrides)
        run = RunFolder(str(self.path))
        (self.path / "logs").mkdir(parents=True, exist_ok=True)
        for name in ("status", "TRAINING_DONE.json", "RESULT.json", "STOP.json", "SCALE.json"):
            run.remove(name)
        (self.path / "config.yaml").write_text(config_file.dump(job))
        run.write("faults.json", {"faults": faults, "pace": pace})
        return job, run

    @property
    def restarts(self) -> list[run_record.Restart]:
        return self.boss.restarts

    def fired(self, name: object = 0) -> dict[str, Any]:
        """Returns when and where a fault happened; fails if it has not."""
        return json.loads((self.path / f"fired-{name}.json").read_text())

    def check_files(self, finals: int = 1) -> None:
        """Every JSON file parses, every checkpoint in the list loads, each launch has made its one
        final export."""
        for path in self.path.rglob("*.json"):
            json.loads(path.read_text())
        state = tf.train.get_checkpoint_state(str(self.path))
        assert state.all_model_checkpoint_paths
        for checkpoint in state.all_model_checkpoint_paths:
            reader = tf.train.load_checkpoint(checkpoint)
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        assert len(list((self.path / "export" / "final").iterdir())) == finals
        assert not list(self.path.rglob("*.tmp"))


@pytest.fixture(scope="session")
def trainers(tmp_path_factory):
    """The process that all others are forked from."""
    log = tmp_path_factory.mktemp("trainers") / "server.log"
    children = environment.filter_for_children(child_environment())
    with ForkServer(injected.__name__, log=str(log), environment=children) as server:
        yield server


@pytest.fixture
def rig(tmp_path, trainers, small_records):
    with StopRequest().install() as stop:
        yield Rig(tmp_path / "run", trainers, stop, small_records)
