"""Another number of workers for a run that trains: which there may be, and what it takes."""

from __future__ import annotations

from pipeline import config, errors
from pipeline.cluster import compatibility, topology
from pipeline.config import strategy_table


def scale(job: config.Config, workers: int) -> config.Config:
    """Returns `job` with another number of workers.

    Raises `UsageError` if its strategy, its batch or the places that its parameter servers keep do
    not allow so many.
    """
    name, cluster = job.cluster.strategy, job.cluster
    strategy = strategy_table.STRATEGIES[name]
    if not strategy.own_evaluator:
        raise errors.UsageError(
            f"--workers={workers}: strategy {name!r} ({strategy.summary}) has no workers; "
            "make stop, then make train with the same RUN= and another STRATEGY= continues"
        )
    if workers < 1:
        raise errors.UsageError(f"--workers={workers}: must be at least 1; make stop ends a run")
    places = topology.worker_places(cluster)
    if restarts_nothing(cluster) and workers > places:
        raise errors.UsageError(
            f"--workers={workers}: the parameter servers keep places for {places}. make stop, then "
            f'make train with the same RUN=, WORKERS={workers} and SET="cluster.max_workers='
            f'{workers}" continues'
        )
    changed = job.model_copy(update={"cluster": cluster.model_copy(update={"workers": workers})})
    compatibility.check(changed)
    return changed


def places(cluster: config.Cluster) -> int:
    """Returns for how many workers there are addresses, those that may join included; 0 where they
    cannot, because all others would have to be told."""
    return topology.worker_places(cluster) if restarts_nothing(cluster) else 0


def count_spare_places(cluster: config.Cluster) -> int:
    """Returns for how many workers there are addresses besides those that a run starts with."""
    started = topology.role_counts(cluster)[topology.WORKER]
    return max(0, places(cluster) - started)


def restarts_nothing(cluster: config.Cluster) -> bool:
    """True if workers join and leave while all others train on."""
    return strategy_table.STRATEGIES[cluster.strategy].asynchronous
