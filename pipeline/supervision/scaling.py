"""Another number of workers while a run trains, asked for by `SCALE.json` in its folder.

Where each process steps by itself workers join and leave, and no other process is restarted. A
worker that is to leave gets SIGTERM: it finishes its batch and hands back its blocks. Where all
make each step together they save, end, and start again as a gang of another size.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable

from pipeline import errors, storage
from pipeline.cluster import scaling, topology
from pipeline.config import config_file
from pipeline.runs import run_folder, scalings
from pipeline.supervision.ending import Ending
from pipeline.supervision.members import Member
from pipeline.supervision.observation import Observation
from pipeline.supervision.plan import RunSpec
from pipeline.supervision.process_table import ProcessTable

# What is called with the new number of workers, and the newest step.
Note = Callable[[int, int | None], None]


class Scaling:
    """Carries out the requests for another number of workers of one run."""

    def __init__(
        self,
        plan: RunSpec,
        processes: ProcessTable,
        ending: Ending,
        *,
        observation: Observation,
        note: Note,
    ) -> None:
        self._plan, self._processes, self._ending = plan, processes, ending
        self._seen, self._note = observation, note
        self._run = plan.run.impatient

    def look(self) -> bool:
        """Carries out a request, if there is one; kills what was asked to leave and does not.
        Returns true if all that train have ended, saved, and are to be placed again."""
        for member in self._list_leaving():
            if time.monotonic() >= (member.leaves_by or 0.0):
                self._processes.send(member, signal.SIGKILL)
        wanted = self._request()
        if wanted is None or wanted == self._workers:
            return False
        try:
            job = self._plan.run.read_config()
            changed = scaling.scale(job, wanted)
        except errors.PipelineError as error:
            self._seen.show_line(f"{run_folder.SCALE}: {error}")
            return False
        before, self._processes.counts[topology.WORKER] = self._workers, wanted
        together = not scaling.restarts_nothing(job.cluster)
        how = ", saving and starting all training processes again" if together else ""
        self._seen.show_line(f"{wanted} workers from now on, {before} before{how}")
        self._note(wanted, self._seen.pace.newest_step)
        if together:
            self._end_gang()
            storage.write_text(self._plan.run.config_path, config_file.dump(changed))
        else:
            self._join()
            self._leave()
        return together

    def has_left(self, member: Member) -> bool:
        """Takes in that a process has ended; returns true if it was asked to leave."""
        if member.leaves_by is None:
            return False
        del self._processes.members[member.name]
        if member.index < self._workers:  # asked for again meanwhile
            self._processes.add(member.role, member.index)
        else:
            self._seen.show_line(f"{member.name}: has left")
        return True

    @property
    def _workers(self) -> int:
        return self._processes.counts.get(topology.WORKER, 0)

    def _list_leaving(self) -> list[Member]:
        running = self._processes.list_running([topology.WORKER])
        return [member for member in running if member.leaves_by is not None]

    def _request(self) -> int | None:
        """Returns the number that is asked for. A request is for a run that still trains."""
        wanted = scalings.take(self._run)
        if wanted is None:
            return None
        with contextlib.suppress(errors.PipelineError, OSError):
            if self._run.read(run_folder.TRAINING_DONE) is not None:
                self._seen.show_line("another number of workers: training is over")
                return None
        return wanted

    def _join(self) -> None:
        for index in range(self._workers):
            if f"{topology.WORKER}-{index}" not in self._processes.members:
                self._processes.add(topology.WORKER, index)

    def _leave(self) -> None:
        for member in [m for m in self._processes.members.values() if m.role == topology.WORKER]:
            if member.index < self._workers or member.leaves_by is not None:
                continue
            if member.state == "running":
                member.leaves_by = time.monotonic() + self._plan.graces.training
                self._processes.send(member, signal.SIGTERM)
            else:
                del self._processes.members[member.name]

    def _end_gang(self) -> None:
        """Ends all that train, which save, and then what they need for that."""
        graces = self._plan.graces
        # One request to stop is for what comes next: it does not cut the save short.
        self._ending.end(topology.TRAINING_ROLES, graces.training, patience=1)
        self._ending.end([topology.PS], graces.ps)
        self._processes.forget_gang()
