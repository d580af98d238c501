"""When each process was part of the job: `make scale` takes workers in and out of it."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.cluster import topology
from pipeline.runs.accounts import Account
from pipeline.runs.launches import LaunchSpan

# From when to when, in Unix time.
Period = tuple[float, float]


def list_periods(launch: LaunchSpan) -> dict[str, list[Period]]:
    """Returns the periods of each task of a launch, the oldest first: one for most of them."""
    counts = dict(launch.topology)
    workers = [counts.pop(topology.WORKER, 0), *(one.workers for one in launch.scalings)]
    tasks = [f"{role}-{n}" for role in counts for n in range(counts[role])]
    tasks += [f"{topology.WORKER}-{n}" for n in range(max(workers))]
    found = {task: [(launch.began, launch.ended)] for task in tasks}
    for task in dict.fromkeys([*tasks, *(one.task for one in launch.accounts)]):
        own = [one for one in launch.accounts if one.task == task]
        if launch.scalings and task.rpartition("-")[0] == topology.WORKER:
            found[task] = _find_worker_periods(int(task.rpartition("-")[2]), own, launch)
        elif task not in found:  # of an earlier version, which does not record when it left
            found[task] = [(launch.began, max(one.until for one in own))]
    return found


def _find_worker_periods(index: int, own: Sequence[Account], launch: LaunchSpan) -> list[Period]:
    """Returns the periods of a worker in a launch with scalings."""
    # How many there were before the first one is not recorded.
    there = any(one.began < launch.scalings[0].time for one in own)
    began, found = launch.began, list[Period]()
    for change in launch.scalings:
        if there and change.workers <= index:
            # It finishes its batch.
            left = [one.until for one in own if began <= one.began < change.time]
            found.append((began, max([change.time, *left])))
        elif not there and change.workers > index:
            # It may be asked for again before it has left.
            began = max([change.time, *(ended for _, ended in found)])
        there = change.workers > index
    return [*found, (began, launch.ended)] if there else found
