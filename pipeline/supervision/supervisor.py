"""Owns the life of every process of a run: starts, watches, restarts and ends them.

No TensorFlow process shuts itself down reliably: parameter servers never end, so they are ended
here once chief and workers have; the run has succeeded only when the evaluating process has written
the result of the final step (docs/tensorflow-pitfalls.md#parameter-servers-never-exit,
#evaluator-never-exits, #final-checkpoint-not-evaluated).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import signal
import time
from collections.abc import Callable, Iterable

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.cluster.tolerance import Tolerance
from pipeline.processes import environment, isolation
from pipeline.processes.fork_client import (
    Ended,
    Event,
    ForkServer,
    ServerLostError,
    Spawn,
    Started,
    StopRequest,
    describe_exit,
)
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import Status
from pipeline.supervision import restart_policy, watchdog
from pipeline.supervision.members import Member
from pipeline.supervision.pace import Pace
from pipeline.supervision.plan import Graces, Observer, Plan
from pipeline.supervision.ports import Reservation

_TAIL_LINES = 15
# What the fork server is called among the restarts.
_SERVER = "fork-server"


class Supervisor:
    """Runs the processes of one plan to their common end."""

    def __init__(
        self,
        plan: Plan,
        server: ForkServer,
        stop: StopRequest,
        *,
        observer: Observer,
        policy: restart_policy.Policy,
        booked: list[run_record.Restart] | None = None,
        reserve: Callable[[int], Reservation] = Reservation,
        graces: Graces | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Restarts are added to `booked`; what each has cost is filled in when it is over."""
        self._plan, self._server, self._stop = plan, server, stop
        self._observer, self._policy, self._reserve = observer, policy, reserve
        self._graces = graces or Graces()
        self._clock, self._wall_clock = clock, wall_clock
        self._ports: Reservation | None = None
        self._members: dict[str, Member] = {}
        self._backlog: list[Event] = []
        self._observed = -1e9
        self._reading = Tolerance("reading what the processes report", clock=clock)
        self._chief_done_at: float | None = None
        self._recoveries: list[restart_policy.Recovery] = []
        self._statuses: dict[str, Status] = {}
        files = functools.partial(watchdog.checkpoint_files, plan.run)
        self._watchdog = watchdog.Watchdog(plan.patience, files)
        self._saving = watchdog.Saving(plan.patience.start, files)
        self.restarts = [] if booked is None else booked
        self.cluster: dict[str, tuple[str, ...]] = {}
        # Why training ended, in the chief's words: "steps", or what stopped it before.
        self.reason = ""
        self.pace = Pace(plan.steps)

    def run(self) -> None:
        """Returns when the run has succeeded, with every process gone.

        Raises the `PipelineError` of what went wrong, `RetryableError` after a stop request; then
        too every process is gone.
        """
        self._place()
        try:
            while not self._complete():
                try:
                    self._turn()
                except ServerLostError as lost:
                    self._start_all_again(lost)
            with contextlib.suppress(ServerLostError):  # it has ended them itself
                self._end([topology.PS], self._graces.ps, patience=0)
            self._observe(now=True)
            self.reason = self._plan.reason_of_end(self.pace.steps)
        except errors.PipelineError as error:
            self._end_all(softly=error.exit_code not in errors.FINAL_CODES)
            raise
        finally:
            if self._ports is not None:
                self._ports.release()

    def _place(self) -> None:
        """Makes the members of a cluster on fresh ports, all due at once.

        An evaluator that is at work stays: it needs no address.
        """
        counts = self._plan.counts
        addressed = sum(counts.get(role, 0) for role in (*topology.TRAINING_ROLES, topology.PS))
        if addressed > 1:
            if self._ports is not None:
                self._ports.release()
            self._ports = self._reserve(addressed)
            self.cluster = topology.cluster_of(counts, self._ports.addresses)
            if not self._plan.isolated:
                self._observer.say(isolation.note(self._ports.addresses))
        for role, count in counts.items():
            for index in range(count):
                task = topology.Task(role, index, self.cluster)
                log = os.path.join(self._plan.logs, f"{task.name}.log")
                member = Member(role, index, task, log)
                if role != topology.EVALUATOR or member.name not in self._members:
                    self._members[member.name] = member

    def _complete(self) -> bool:
        # An end that came while others were ended has not been judged yet.
        return not self._backlog and all(
            m.state == "done" for m in self._members.values() if m.role != topology.PS
        )

    def _turn(self) -> None:
        """Waits for something to happen, and acts on it."""
        self._start_due()
        self._receive(self._graces.poll)
        # Before any end is judged: others may have been asked to stop, too.
        if self._stop.count:
            self._observe(now=True)
            # First, because only then is known what was saved.
            self._end_all(softly=True)
            raise self._plan.stopped(self._stop.name)
        events, self._backlog = self._backlog, []
        for event in events:
            if isinstance(event, Ended):
                self._judge(self._members[event.name], event.code)
        self._end_stragglers()
        self._observe()
        self._end_hanging()

    def _start_due(self) -> None:
        for member in self._members.values():
            if member.state == "due" and member.due <= self._clock():
                log = member.log
                member.log_start = os.path.getsize(log) if os.path.exists(log) else 0
                member.state, member.pid, member.hang = "running", 0, None
                arguments = (self._plan.run.path, self._plan.records, member.task)
                extra = environment.for_role(
                    member.role,
                    os.environ,
                    processors=environment.processors(),
                    trainers=sum(self._plan.counts.get(r, 0) for r in topology.TRAINING_ROLES),
                )
                self._server.spawn(Spawn(member.name, self._plan.entry, arguments, log, extra))

    def _receive(self, timeout: float) -> None:
        """Books the events of processes; ends are also kept for `_judge`."""
        for event in self._server.wait(timeout, also=[self._stop.descriptor]):
            member = self._members[event.name]
            if isinstance(event, Started):
                member.pid = event.pid
            else:
                member.state = "done"
                storage.sweep(self._plan.run.path, member.pid)
                self._backlog.append(event)
        self._stop.drain()

    def _judge(self, member: Member, code: int) -> None:
        """Decides what the end of a process means."""
        if code == 0 and member.role != topology.PS:
            member.check_markers(self._plan.run, evaluates=not self._has_evaluator)
            if member.role == topology.CHIEF:
                self._chief_done_at = self._clock()
                self.pace.trained_at = self.pace.trained_at or self._wall_clock()
            return
        if self._has_no_part_left(member) and code not in errors.FINAL_CODES:
            return
        self._observe(now=True)  # its last words
        if code > 0 and storage.is_full(self._plan.run.path):
            raise errors.RetryableError(
                f"{member.name}: No space left on the device of {self._plan.run.path!r}. Free some "
                "space and run the same command again to resume."
            )
        newest = self.pace.newest_step
        loss = member.loss(self._plan.run, code, newest_step=newest, unit=self._policy.unit)
        decision = self._policy.decide(loss, self._clock())
        if decision.action == "fail":
            raise self._failure(member, loss, decision)
        self._restart(member, loss, decision)

    def _has_no_part_left(self, member: Member) -> bool:
        """True if training is over and all that is left to do is the evaluator's.

        A parameter server even ends by itself then, and a chief that was lost after it said that
        training is over would find nobody to train with.
        """
        if member.role == (topology.EVALUATOR if self._has_evaluator else topology.CHIEF):
            return False
        return self._plan.run.read(run_folder.TRAINING_DONE) is not None

    def _restart(
        self, member: Member, loss: restart_policy.Loss, decision: restart_policy.Decision
    ) -> None:
        what = "it" if decision.action == "task" else "all training processes"
        again = f"in {decision.delay:g} s" if decision.delay else "now"
        self._observer.say(f"{member.name}: {loss.cause}; starting {what} again {again}")
        whole = decision.action == "gang"
        self._book(member.role, member.index, loss.cause, step=self.pace.newest_step, gang=whole)
        if whole:
            gang = [topology.PS, *topology.TRAINING_ROLES]
            self._end(gang, 0.0, patience=0)
            self._backlog = [
                event for event in self._backlog if self._members[event.name].role not in gang
            ]
            for lost in self._members.values():
                if lost.role in gang:
                    # The new processes wait for words of each other, not of these.
                    self._plan.run.remove(f"status/{lost.name}.json")
            self._place()
            member = self._members[member.name]
        member.state, member.due = "due", self._clock() + decision.delay

    def _book(self, role: str, index: int, cause: str, *, step: int | None, gang: bool) -> None:
        """Adds a loss to the restarts, and waits for what it costs."""
        now = self._wall_clock()
        restart = run_record.Restart(
            role=role, index=index, cause=cause, step=step, time=now, gang=gang
        )
        self.restarts.append(restart)
        self._recoveries.append(restart_policy.Recovery(restart, wall_time=now, gang=gang))

    def _start_all_again(self, lost: ServerLostError) -> None:
        """Starts another fork server, and all processes that have work left. Raises `lost` if the
        run is to end, or if that has happened too often without progress."""
        cause = f"the process that starts all others was lost: {describe_exit(lost.code)}"
        reached = self.pace.newest_step
        task = topology.Task(topology.CHIEF, 0)  # as for all that train
        loss = restart_policy.Loss(
            task, lost.code, cause, worked=True, stalled=True, reached=reached
        )
        decision = self._policy.decide(loss, self._clock())
        if self._stop.count or decision.action == "fail":
            raise lost
        self._observe(now=True)
        again = f"in {decision.delay:g} s" if decision.delay else "now"
        self._observer.say(f"{cause}; starting all processes again {again}")
        self._book(_SERVER, 0, cause, step=reached, gang=True)
        self._backlog.clear()
        lost_members = [m for m in self._members.values() if m.state != "done"]
        for member in lost_members:
            storage.sweep(self._plan.run.path, member.pid)
            self._plan.run.remove(f"status/{member.name}.json")
        self._server.restart()
        if self._plan.run.read(run_folder.TRAINING_DONE) is None or not self._has_evaluator:
            self._chief_done_at = None
            self._place()
        else:
            self._chief_done_at = self._chief_done_at or self._clock()
            for member in lost_members:
                member.state = "done"
        for member in self._members.values():
            if member.role == topology.EVALUATOR and member in lost_members:
                member.state = "due"
            member.due = self._clock() + decision.delay

    @property
    def _has_evaluator(self) -> bool:
        return bool(self._plan.counts.get(topology.EVALUATOR))

    def _failure(
        self, member: Member, loss: restart_policy.Loss, decision: restart_policy.Decision
    ) -> errors.PipelineError:
        if decision.code not in errors.FINAL_CODES:
            for line in member.tail()[-_TAIL_LINES:]:
                self._observer.say(f"{member.name} | {line}")
        return member.failure(loss, decision)

    def _end_stragglers(self) -> None:
        """Ends what only trains once training is over
        (docs/tensorflow-pitfalls.md#parameter-servers-never-exit)."""
        if self._chief_done_at is None:
            return
        workers = self._running([topology.WORKER])
        if not workers:
            self._end([topology.PS], self._graces.ps, patience=0)
        elif self._clock() - self._chief_done_at > self._graces.stragglers:
            names = ", ".join(member.name for member in workers)
            self._observer.say(f"{names}: still there after the end of training; ending it")
            self._end([topology.WORKER], self._graces.ps, patience=0)

    def _end_hanging(self) -> None:
        """Kills what makes no progress; what follows is decided as for any other loss."""
        wanted = [topology.EVALUATOR]
        if self._chief_done_at is None:
            wanted += topology.TRAINING_ROLES
        pids = {member.name: member.pid for member in self._running(wanted)}
        hang = self._watchdog.look(self._statuses, pids, self._clock())
        if hang is None:
            return
        suspects = self._running([topology.PS, *topology.TRAINING_ROLES])
        if hang.name:
            suspects = [self._members[hang.name]]
        stopped = [member for member in suspects if watchdog.is_stopped(member.pid)]
        # If training hangs as a whole, whoever was stopped is to blame, or nobody known is.
        member = self._members[hang.name or (stopped[0].name if stopped else "chief-0")]
        if stopped:
            names = ", ".join(m.name for m in stopped)
            hang = dataclasses.replace(hang, cause=f"{hang.cause} ({names} stopped by a signal)")
        member.hang = hang
        self._server.signal(member.name, signal.SIGKILL)

    def _end_all(self, *, softly: bool) -> None:
        """Ends every process: those that train first, so that they can save, and the parameter
        servers, which they need for that, last. After a fatal error nothing is worth saving."""
        steps = (
            ([*topology.TRAINING_ROLES], self._graces.training),
            ([topology.EVALUATOR], self._graces.evaluator),
            ([topology.PS], self._graces.ps),
        )
        if softly and self._running(topology.TRAINING_ROLES):
            self._observer.say(f"{self._plan.stopping}; Ctrl-C again stops at once")
        patience = min(self._stop.count, 1)  # the first request is why we are here
        for roles, grace in steps:
            try:
                self._end(roles, grace if softly else 0.0, patience=patience)
            except errors.PipelineError:
                return  # the fork server is gone, and every process with it

    def _end(self, roles: Iterable[str], grace: float, *, patience: int) -> None:
        """Ends the processes of `roles`: SIGTERM, then SIGKILL after `grace` seconds, unless they
        are at work on a save; or as soon as there have been more than `patience` stop requests.

        Without a grace there is no SIGTERM, and no save is waited for: it may need a process that
        was lost."""
        for member in self._members.values():
            if member.role in roles and member.state == "due":
                member.state = "done"
        pending = self._running(roles)
        if grace:
            for member in pending:
                self._server.signal(member.name, signal.SIGTERM)
        deadline, killed = self._clock() + grace, False
        while pending:
            insisted = self._stop.count > patience
            over = self._clock() >= deadline
            if grace and over and not (killed or insisted) and self._saves(pending):
                over, deadline = False, self._clock() + self._graces.poll
            if not killed and (over or insisted):
                killed = True
                for member in pending:
                    self._server.signal(member.name, signal.SIGKILL)
            self._receive(min(self._graces.poll, max(0.0, deadline - self._clock()) + 0.01))
            pending = self._running(roles)

    def _saves(self, pending: list[Member]) -> bool:
        self._observe(now=True)
        own = {m.name: self._statuses[m.name] for m in pending if m.name in self._statuses}
        return self._saving.goes_on(own, self._clock())

    def _running(self, roles: Iterable[str]) -> list[Member]:
        wanted = set(roles)
        return [m for m in self._members.values() if m.role in wanted and m.state == "running"]

    def _observe(self, *, now: bool = False) -> None:
        """Looks at what the processes say of themselves, if it is time to."""
        every = 5.0 if storage.is_remote(self._plan.run.path) else self._graces.poll
        if not now and self._clock() - self._observed < every:
            return
        self._observed = self._clock()
        with self._reading.survived():
            self._statuses = {
                name: status
                for name, status in run_folder.read_statuses(self._plan.run).items()
                if name in self._members and status.pid == self._members[name].pid
            }
        statuses = self._statuses
        training = (*topology.TRAINING_ROLES,)
        self.pace.see(s for n, s in statuses.items() if self._members[n].role in training)
        self._recoveries = [one for one in self._recoveries if not one.see(statuses)]
        self._observer.show(statuses)
