"""Puts the drawn faults into a run, one after the other, and measures what each of them costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.faults import actions
from pipeline.faults.actions import Scene
from pipeline.faults.draw import Fault
from pipeline.faults.targets import FORK_SERVER
from pipeline.runs.run_record import Restart
from pipeline.supervision.restart_policy import Recovery

_PATIENCE = 300.0  # seconds after which the next fault no longer waits for the steps after this one


class Disturber:
    """The faults of one run; `act` is called at every look, `expect_exit` when a launcher ends."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = list(faults)
        self.scene: Scene
        self._at = 0  # of the fault that is due, or under way
        self._action: Iterator[None] | None = None
        self._recovery: Recovery | None = None
        self._ledger = (0, 0)  # records doubled and missed at the last fault

    @property
    def done(self) -> int:
        """How many faults have happened."""
        return sum(fault.struck is not None for fault in self.faults)

    @property
    def current(self) -> Fault | None:
        """The fault that is under way, or over but for the steps after it."""
        under_way = self._action is not None or self._recovery is not None
        return self.faults[self._at] if under_way else None

    def act(self) -> None:
        """Does what is due."""
        if self._action is not None:
            self._continue()
            if self._recovery is not None:
                self._recovery.note_steps(self.scene.run.statuses)
            self._let_next_go_first()
        elif self._recovery is not None:
            self._look()
        elif self._at < len(self.faults):
            fault = self.faults[self._at]
            if self.scene.run.top_step >= fault.step:
                self._action = actions.ACTIONS[fault.kind](self.scene, fault)
                self._continue()

    def _continue(self) -> None:
        assert self._action is not None
        try:
            next(self._action)
        except StopIteration:
            self._action = None
            if self._recovery is None:
                self._at += 1

    def _let_next_go_first(self) -> None:
        """Postpones a fault that waits for what it hits, such as a second checkpoint."""
        now, then = self._at, self._at + 1
        if self._action is None or self.faults[now].struck is not None or then >= len(self.faults):
            return
        if self.scene.run.top_step >= self.faults[then].step:
            self._action = None
            self.faults[now], self.faults[then] = self.faults[then], self.faults[now]

    def expect_exit(self, code: int) -> bool:
        """True if the fault under way ends the launcher with `code`. It is told before the launcher
        is started again: what keeps it from working is taken away then."""
        fault = self.current
        if fault is None or code not in actions.EXPECTED.get(fault.kind, ()):
            return False
        fault.note = f"exit code {code}, and the same command again"
        if self._action is not None:
            self._continue()
        return True

    def strike(self, fault: Fault) -> None:
        """Notes the moment of a fault; the ledger up to it is that of the faults before."""
        self.account()
        now, clock = time.time(), self.scene.clock
        fault.struck, fault.at = now - (clock.moved if clock else 0.0), self._step()
        self._since = time.monotonic()
        role, _, index = fault.target.partition("-")
        alone = role == topology.EVALUATOR or (
            role in topology.TRAINING_ROLES
            and not strategy_table.STRATEGIES[self.scene.job.cluster.strategy].synchronous
        )
        # If there are several processes, each that trains has to make a step beyond the one it is
        # found at, as after the loss of a parameter server.
        restart = Restart(
            role=role if alone and fault.target != FORK_SERVER else topology.PS,
            index=int(index) if alone else 0,
            cause=fault.kind,
            step=fault.at,
        )
        self._recovery = Recovery(restart, wall_time=now, known=self.scene.run.statuses)
        self._restart = restart

    def _step(self) -> int:
        """Returns the step that training is at: the highest that a process has reported since the
        chief began or continued, which after lost work is not the highest ever."""
        statuses = self.scene.run.statuses
        chief = statuses.get(f"{topology.CHIEF}-0")
        since = chief.continued["time"] if chief is not None and chief.continued else 0.0
        steps = [
            status.step
            for name, status in statuses.items()
            if name.rpartition("-")[0] in topology.TRAINING_ROLES
            and status.step is not None
            and status.time >= since
        ]
        return max(steps, default=self.scene.run.top_step)

    def _look(self) -> None:
        assert self._recovery is not None
        fault = self.faults[self._at]
        over = self._recovery.see(self.scene.run.statuses)
        fault.seconds_to_next_step = self._restart.seconds_to_next_step
        fault.steps_lost = self._restart.steps_lost
        late = time.monotonic() - self._since > _PATIENCE + fault.seconds
        if over or late:
            self._recovery = None
            self._at += 1

    def account(self, rows: list[dict[str, int]] | None = None) -> None:
        """Gives the newest fault what the ledger has shown since: `rows` at the end of the run,
        else what the chief says of its newest checkpoint."""
        if rows is None:
            chief = self.scene.run.statuses.get("chief-0")
            rows = chief.input if chief else None
        if rows is None:
            return
        now = (sum(row["more"] for row in rows), sum(row["never"] for row in rows))
        struck = [fault for fault in self.faults if fault.struck is not None]
        if struck:
            struck[-1].doubled += max(0, now[0] - self._ledger[0])
            struck[-1].missed += max(0, now[1] - self._ledger[1])
        self._ledger = now

    def close(self) -> None:
        """Undoes what lasts."""
        close = getattr(self._action, "close", None)
        if close is not None:
            close()
