"""A stage for a supervisor: one run of fake roles, and what is said and shown of it."""

from __future__ import annotations

import pathlib

from pipeline.runs.run_folder import RunFolder
from pipeline.supervision import restart_policy
from pipeline.supervision.plan import Graces, RunSpec
from pipeline.supervision.supervisor import Supervisor
from pipeline.supervision.watchdog import HangLimits
from tests.pipeline import fake_roles
from tests.pipeline.process_help import is_alive

CLUSTER = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
SINGLE = {"chief": 1, "worker": 0, "ps": 0, "evaluator": 0}
QUICK = Graces(training=5.0, evaluator=0.3, ps=0.2, stragglers=0.5, poll=0.05)

# However slowly processes start, the second waits for their first step.
PATIENT, IMPATIENT = HangLimits(), HangLimits(step=1.0, start=60.0)


class Notes:
    """Keeps what a supervisor says, and acts on what it shows."""

    def __init__(self):
        self.lines = []
        self.statuses = {}
        self.react = lambda statuses: None

    def show_line(self, line):
        self.lines.append(line)

    def show(self, statuses):
        self.statuses = dict(statuses)
        self.react(statuses)


class Stage:
    """One run of fake roles under a supervisor."""

    def __init__(self, folder, server, stop):
        self.run_folder = RunFolder(str(folder / "run"))
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.server, self.stop = server, stop
        self.notes = Notes()
        self.options = {}
        self.boss = None

    def run(
        self,
        counts=CLUSTER,
        *,
        steps=20,
        unit="task",
        graces=QUICK,
        patience=PATIENT,
        worker_places=0,
        gpus=lambda task: None,
        **script,
    ):
        self.run_folder.write(
            "script.json", {name.replace("_", "-"): plays for name, plays in script.items()}
        )
        plan = RunSpec(
            run=self.run_folder,
            records="records",
            entry=fake_roles.ENTRY,
            counts=counts,
            worker_places=worker_places,
            gpus=gpus,
            steps=steps,
            logs=str(self.logs),
            patience=patience,
            graces=graces,
        )
        policy = restart_policy.Policy(unit, most=3, delays=(0.0, 0.05))
        self.boss = Supervisor(
            plan,
            self.server,
            self.stop,
            observer=self.notes,
            policy=policy,
            **self.options,
        )
        try:
            self.boss.run()
        finally:
            left = [pid for name in self.names() for pid in self.pids(name) if is_alive(pid)]
            assert left == [], "processes outlive the supervisor"

    def names(self):
        # A process may be killed before its first line is in its file.
        begun = [path for path in self.path.glob("attempts-*") if path.stat().st_size]
        return [path.name.removeprefix("attempts-") for path in begun]

    def attempts(self, name):
        notes = self.path / f"attempts-{name}"
        return [line.split(" ", 1) for line in notes.read_text().splitlines()]

    def pids(self, name):
        return [int(pid) for pid, _ in self.attempts(name)]

    @property
    def path(self):
        return pathlib.Path(self.run_folder.path)
