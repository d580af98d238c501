"""Whether the tables of a model fit into memory, before a process is started for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import cluster_config, strategy_table
from pipeline.console import figures
from pipeline.jobs.job import Job
from pipeline.records import manifest, table_sizes
from pipeline.records.table_sizes import Table


@dataclasses.dataclass(frozen=True)
class Room:
    """Bytes of memory for the processes that hold variables: for all of them, or with `each` for
    every one. `words` is what an error says of it."""

    bytes: float
    words: str
    each: bool = True


def holder(cluster: config.Cluster) -> str:
    """Returns the role whose processes hold the variables."""
    return topology.PS if strategy_table.STRATEGIES[cluster.strategy].servers else topology.CHIEF


def known_manifest(job: Job) -> manifest.Manifest | None:
    """Returns the manifest of the job's records, if they are there with the columns of the
    config."""
    if not job.config.data.has_records or not storage.exists(manifest.path_in(job.records)):
        return None
    found = manifest.read(job.records)
    return found if manifest.has_columns(found, job.config.data) else None


def check(job: config.Config, room: Room | None, contents: manifest.Manifest | None) -> None:
    """Raises `UsageError` if the tables, with what the optimizer remembers of them, take more than
    there is `room` for. Without a manifest, those whose size follows from the data do not count."""
    tables = table_sizes.find_tables(job, contents)
    if room is None or not tables:
        return
    who, needed = _needed(job, tables, each=room.each)
    if needed > room.bytes:
        raise errors.UsageError(
            f"{_arithmetic(job, tables)}; {who} would hold {figures.size(round(needed))} of "
            f"tables, and {room.words}. {_advice(job)}"
        )


def _needed(job: config.Config, tables: Sequence[Table], *, each: bool) -> tuple[str, float]:
    """Returns which processes hold variables, and the bytes of tables that they do: of one that
    has the most, if `each` counts by itself."""
    cluster, copies = job.cluster, 1 + job.train.optimizer.slots
    counts, every = topology.role_counts(cluster), sum(table.bytes for table in tables)
    if holder(cluster) == topology.PS:
        count, one, several = counts[topology.PS], "server", "servers"
        cuts = "partition_bytes" in strategy_table.STRATEGIES[cluster.strategy].keys
        largest = cluster.partition_bytes or cluster_config.LARGE_VARIABLE
        most = table_sizes.on_one(tables, count, largest if cuts else None)
    else:  # each has all tables
        count, one, several = (
            counts[topology.CHIEF] + counts[topology.WORKER],
            "process",
            "processes",
        )
        most, every = every, every * count
    if count == 1:
        return f"the {one}", copies * every
    return (
        (f"each of the {count} {several}", copies * most)
        if each
        else (f"the {count} {several}", copies * every)
    )


def _arithmetic(job: config.Config, tables: Sequence[Table]) -> str:
    """Returns how the size of the largest table comes about."""
    largest, slots = max(tables, key=lambda table: table.bytes), job.train.optimizer.slots
    copies = f" x {1 + slots} (with what {job.train.optimizer.name} remembers)" if slots else ""
    size = figures.size(largest.bytes * (1 + slots))
    return f"features.{largest.feature}: its table takes {largest}{copies} = {size}"


def _advice(job: config.Config) -> str:
    ways = ["a smaller embedding", "fewer ids (buckets of hash, top_k of a vocabulary)"]
    if job.train.optimizer.slots:
        ways.append("train.optimizer.name=sgd, which remembers nothing")
    more = (
        "more servers (cluster.ps)"
        if holder(job.cluster) == topology.PS
        else ("parameter servers (cluster.strategy=parameter_server)")
    )
    return f"Use {', '.join(ways)}, or {more} on other hosts"
