"""Runs the processes of a run to their common end: starts, watches, restarts and ends them.

No TensorFlow process shuts itself down reliably: parameter servers never end, so they are ended
here once chief and workers have; the run has succeeded only when the evaluating process has written
the result of the final step (docs/tensorflow-pitfalls.md#parameter-servers-never-exit,
#evaluator-never-exits, #final-checkpoint-not-evaluated).

The parts: `ProcessTable` starts them and receives their ends, `Observation` reads what they report,
`Ending` ends them, `watchdog` finds those that hang, and `restart_policy` decides what a loss
means. This module says in which order they are asked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import signal
import time
from collections.abc import Callable

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.processes import isolation
from pipeline.processes.fork_client import ForkServer, ServerLostError, StopRequest, describe_exit
from pipeline.runs import run_folder, run_record
from pipeline.supervision import restart_policy, scaling, watchdog
from pipeline.supervision.ending import Ending
from pipeline.supervision.members import Member
from pipeline.supervision.observation import Observation
from pipeline.supervision.pace import Pace
from pipeline.supervision.plan import Observer, RunSpec
from pipeline.supervision.ports import Reservation
from pipeline.supervision.process_table import GANG, ProcessTable

_TAIL_LINES = 15
# What the fork server is called among the restarts.
_SERVER = "fork-server"


class Supervisor:
    """Runs the processes of one plan to their common end."""

    def __init__(
        self,
        plan: RunSpec,
        server: ForkServer,
        stop: StopRequest,
        *,
        observer: Observer,
        policy: restart_policy.Policy,
        restarts: list[run_record.Restart] | None = None,
        scaled: scaling.Note = lambda workers, step: None,
        reserve: Callable[[int], Reservation] = Reservation,
    ) -> None:
        """New ones are added to `restarts`; the cost of each is filled in when it is over. `scaled`
        is called for each request for another number of workers."""
        files = functools.partial(watchdog.checkpoint_files, plan.run)
        saving = watchdog.Saving(plan.patience.start, files)
        restarts = [] if restarts is None else restarts
        self._plan, self._stop, self._policy = plan, stop, policy
        self._processes = processes = ProcessTable(plan, server, reserve=reserve)
        self._seen = seen = Observation(plan, processes, observer, restarts=restarts)
        self._ending = Ending(plan, processes, stop, observation=seen, saving=saving)
        self._scaling = scaling.Scaling(
            plan, processes, self._ending, observation=seen, note=scaled
        )
        self._watchdog = watchdog.Watchdog(plan.patience, files)
        self._chief_done_at: float | None = None
        # Why training ended, as the chief reports it: "steps", or what stopped it before.
        self.reason = ""

    @property
    def restarts(self) -> list[run_record.Restart]:
        """The restarts so far, with those of earlier launches."""
        return self._seen.restarts

    @property
    def pace(self) -> Pace:
        """When the run trained, and how far it got."""
        return self._seen.pace

    @property
    def cluster(self) -> dict[str, tuple[str, ...]]:
        """The addresses of the tasks, by role; none for a single process."""
        return self._processes.cluster

    def run(self) -> None:
        """Returns when the run has succeeded, with every process gone.

        Raises the `PipelineError` of what went wrong, `RetryableError` after a stop request; then
        too every process is gone.
        """
        self._place()
        try:
            while not self._processes.are_complete():
                try:
                    self._turn()
                except ServerLostError as lost:
                    self._start_all_again(lost)
            with contextlib.suppress(ServerLostError):  # it has ended them itself
                self._ending.end_parameter_servers()
            self._seen.look(now=True)
            self.reason = self._plan.reason_of_end(self.pace.steps)
        except errors.PipelineError as error:
            self._ending.end_all(softly=error.exit_code not in errors.FINAL_CODES)
            self._seen.look(now=True)  # up to which step they have saved
            raise
        finally:
            self._processes.release_ports()

    def _place(self) -> None:
        addresses = self._processes.place()
        if addresses and not self._plan.isolated:
            self._seen.show_line(isolation.note(addresses))

    def _turn(self) -> None:
        """Waits for something to happen, and acts on it."""
        self._processes.start_due()
        self._processes.receive(self._plan.graces.poll, self._stop)
        # Before any end is handled: others may have been asked to stop, too.
        if self._stop.count:
            self._seen.look(now=True)
            # First, because only then is known what was saved.
            self._ending.end_all(softly=True)
            raise self._plan.build_stopped_error(self._stop.name)
        for event in self._processes.take_ended():
            self._handle_end(self._processes.members[event.name], event.code)
        if self._chief_done_at is not None:
            self._ending.end_stragglers(time.monotonic() - self._chief_done_at)
        self._seen.look()
        if self._chief_done_at is None and self._scaling.look():
            self._place()
        self._kill_hanging()

    def _handle_end(self, member: Member, code: int) -> None:
        """Decides what the end of a process means."""
        if code not in errors.FINAL_CODES and self._scaling.has_left(member):
            return
        if code == 0 and member.role != topology.PS:
            evaluates = not self._processes.has_evaluator
            member.check_markers(self._plan.run, evaluates=evaluates)
            if member.role == topology.CHIEF:
                self._chief_done_at = time.monotonic()
                self.pace.trained_at = self.pace.trained_at or time.time()
            return
        if self._has_no_part_left(member) and code not in errors.FINAL_CODES:
            return
        self._seen.look(now=True)  # its last report
        if code > 0 and storage.is_full(self._plan.run.path):
            raise errors.RetryableError(
                f"{member.name}: No space left on the device of {self._plan.run.path!r}. Free some "
                "space and run the same command again to resume."
            )
        newest = self.pace.newest_step
        loss = member.loss(self._plan.run, code, newest_step=newest, unit=self._policy.unit)
        decision = self._policy.decide(loss, time.monotonic())
        if decision.action == "fail":
            failure = self._build_failure(member, loss, decision)
            # The others may save, unless what they have is wrong too.
            self._ending.end_all(softly=loss.code not in errors.FINAL_CODES)
            raise failure
        self._restart(member, loss, decision)

    def _has_no_part_left(self, member: Member) -> bool:
        """True if training is over and all that is left to do is the evaluator's.

        A parameter server even ends by itself then, and a chief that was lost after it reported
        the end of training would find no process to train with.
        """
        evaluating = topology.EVALUATOR if self._processes.has_evaluator else topology.CHIEF
        return member.role != evaluating and self._is_trained()

    def _is_trained(self) -> bool:
        return self._plan.run.read(run_folder.TRAINING_DONE) is not None

    def _restart(
        self, member: Member, loss: restart_policy.Loss, decision: restart_policy.Decision
    ) -> None:
        what = "it" if decision.action == "task" else "all training processes"
        self._seen.show_line(
            f"{member.name}: {loss.cause}; starting {what} again {_format_delay(decision)}"
        )
        whole = decision.action == "gang"
        self._seen.add_restart(
            member.role, member.index, loss.cause, step=self.pace.newest_step, gang=whole
        )
        if whole:
            self._ending.end(GANG, 0.0)
            self._processes.forget_gang()
            self._place()
            member = self._processes.members[member.name]
        member.state, member.due = "due", time.monotonic() + decision.delay

    def _start_all_again(self, lost: ServerLostError) -> None:
        """Starts another fork server, and all processes that have work left. Raises `lost` if the
        run is to end, or if that has happened too often without progress."""
        cause = f"the fork server, which starts all processes, was lost: {describe_exit(lost.code)}"
        reached = self.pace.newest_step
        task = topology.Task(topology.CHIEF, 0)  # as for all that train
        loss = restart_policy.Loss(
            task, lost.code, cause, worked=True, stalled=True, reached=reached
        )
        decision = self._policy.decide(loss, time.monotonic())
        if self._stop.count or decision.action == "fail":
            raise lost
        self._seen.look(now=True)
        self._seen.show_line(f"{cause}; starting all processes again {_format_delay(decision)}")
        self._seen.add_restart(_SERVER, 0, cause, step=reached, gang=True)
        lost_members = self._processes.restart_server()
        if self._is_trained() and self._processes.has_evaluator:
            self._chief_done_at = self._chief_done_at or time.monotonic()
            for member in lost_members:
                member.state = "done"
        else:
            self._chief_done_at = None
            self._place()
        for member in self._processes.members.values():
            if member.role == topology.EVALUATOR and member in lost_members:
                member.state = "due"
            member.due = time.monotonic() + decision.delay

    def _build_failure(
        self, member: Member, loss: restart_policy.Loss, decision: restart_policy.Decision
    ) -> errors.PipelineError:
        if loss.code not in errors.FINAL_CODES:
            for line in member.tail()[-_TAIL_LINES:]:
                self._seen.show_line(f"{member.name} | {line}")
        return member.failure(loss, decision)

    def _kill_hanging(self) -> None:
        """Kills what makes no progress; what follows is decided as for any other loss."""
        wanted = [topology.EVALUATOR]
        if self._chief_done_at is None:
            wanted += topology.TRAINING_ROLES
        pids = {member.name: member.pid for member in self._processes.list_running(wanted)}
        hang = self._watchdog.look(self._seen.statuses, pids, time.monotonic())
        if hang is None:
            return
        members = self._processes.members
        suspects = [members[hang.name]] if hang.name else self._processes.list_running(GANG)
        stopped = [member for member in suspects if watchdog.is_stopped(member.pid)]
        # If training hangs as a whole, a process that was stopped is the cause, if there is one.
        member = members[hang.name or (stopped[0].name if stopped else "chief-0")]
        if stopped:
            names = ", ".join(m.name for m in stopped)
            hang = dataclasses.replace(hang, cause=f"{hang.cause} ({names} stopped by a signal)")
        member.hang = hang
        self._processes.send(member, signal.SIGKILL)


def _format_delay(decision: restart_policy.Decision) -> str:
    return f"in {decision.delay:g} s" if decision.delay else "now"
