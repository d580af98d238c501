"""What the docs promise of the end of a run: final step, exports, how often records are used."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import strategy_table


def trainers(job: config.Config) -> int:
    """Returns how many processes train."""
    return 1 + topology.role_counts(job.cluster)[topology.WORKER]


def is_asynchronous(job: config.Config) -> bool:
    """True if each of several processes steps by itself."""
    return strategy_table.STRATEGIES[job.cluster.strategy].asynchronous


def bound(job: config.Config, workers_lost: int, windows: Iterable[int]) -> int:
    """Returns how many records may have been applied more than once, by the table of
    docs/exactly-once.md.

    Asynchronous modes: a batch of each of `workers_lost`; for each checkpoint that was restored,
    what was applied while it was written (`windows`, in batches), and one batch of each training
    process. The final checkpoint counts as one that is restored. Else 0.
    """
    if not is_asynchronous(job):
        return 0
    batches = workers_lost + sum(trainers(job) + window for window in windows)
    return batches * topology.examples_per_process(job)


def check_step(job: config.Config, step: int) -> list[str]:
    """Returns what is wrong with the final step; `job` knows the steps of its epochs."""
    wanted = job.train.max_steps
    assert wanted is not None
    beyond = 2 * trainers(job) if is_asynchronous(job) else 0
    if wanted <= step <= wanted + beyond:
        return []
    return [f"final step {step}, not {wanted}" + (f" to {wanted + beyond}" * bool(beyond))]


def count_uncounted(job: config.Config, step: int, applied: int) -> int:
    """Returns how many records `step` steps have applied beyond the `applied` ones that the ledger
    has; less than 0 if it has more."""
    return step * topology.examples_per_step(job) - applied


def check_total(job: config.Config, step: int, applied: int, *, most: int) -> list[str]:
    """Returns what is wrong with the `applied` records of the ledger: the model may have learned
    from up to `most` more, in whole batches, because it counts what has been applied. With
    `cluster.backup_workers` it may have learned from fewer, because what was dropped counts."""
    beyond = count_uncounted(job, step, applied)
    if beyond < 0 and job.cluster.backup_workers:
        return []
    if 0 <= beyond <= most and beyond % topology.examples_per_process(job) == 0:
        return []
    allowed = f": only 0 to {most:,} more, in whole batches, are allowed" * bool(most)
    return [
        f"{applied:,} records applied by the ledger, but {step:,} steps apply "
        f"{applied + beyond:,}{allowed}"
    ]


def count_final_exports(path: str) -> int:
    """Returns how many final exports the run in the folder `path` has."""
    folder = pathlib.Path(path, "export", "final")
    return len(list(folder.iterdir())) if folder.exists() else 0


def check_exports(exports: int) -> list[str]:
    """Returns what is wrong with the number of final exports."""
    return [] if exports == 1 else [f"{exports} final exports"]
