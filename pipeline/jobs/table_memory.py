"""Whether the tables of a model fit into memory, before a process is started for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import cluster_config, strategy_table
from pipeline.console import figures
from pipeline.jobs.job import Job
from pipeline.records import manifest, padded_lists, table_sizes
from pipeline.records.table_sizes import Table

# Copies of the tables alone that a process which evaluates holds: that of the checkpoint, and those
# of the export, of which one is of the process that compares the two.
_EVALUATED, _COMPARED = 2, 1


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


def read_known_manifest(job: Job) -> manifest.Manifest | None:
    """Returns the manifest of the job's records, if they are there with the columns of the
    config."""
    if not job.config.data.has_records or not storage.exists(manifest.path_in(job.records)):
        return None
    found = manifest.read(job.records)
    return found if manifest.has_columns(found, job.config.data) else None


def check(job: config.Config, room: Room | None, contents: manifest.Manifest | None) -> None:
    """Raises `UsageError` if the tables, and layers that get features as one-hot, take more than
    there is `room` for, with what the optimizer remembers of them and what a save copies. Without a
    manifest, those whose size follows from the data do not count. Nor may padded lists take
    more."""
    if room is not None and (holder(job.cluster) != topology.PS or not room.each):
        padded_lists.check(job, contents, room.bytes, words=room.words)
    tables = [*table_sizes.find_tables(job, contents), *table_sizes.find_layers(job, contents)]
    if room is None or not tables:
        return
    copies = 1 + job.train.optimizer.slots
    who, held = _sum_up(job, tables, lambda table: copies, each=room.each)
    _, peak = _sum_up(job, tables, lambda table: _count_copies(job, table), each=room.each)
    evaluated = 0 if room.each else _count_evaluated(job, tables)
    if peak + evaluated > room.bytes:
        others = f" and evaluation {figures.size(evaluated)}" if evaluated else ""
        what = "tables" + " and layers" * any(table.kind == "layer" for table in tables)
        largest = max(tables, key=lambda table: table.bytes)
        raise errors.UsageError(
            f"{_explain_size(job, largest, tables.count(largest))}; {who} would hold "
            f"{figures.size(round(held))} of {what} and take up to {figures.size(round(peak))} "
            f"while they are saved{others}, and {room.words}. {_advise(job, largest)}"
        )


def _count_copies(job: config.Config, table: Table) -> int:
    """Returns how many times a table is in memory at most: as measured, a save copies what is
    updated by rows, and until the first steps are made there are initial values, too. What was
    taken once is not given back. A layer has a gradient as large, where it is not a server that
    computes it."""
    slots = job.train.optimizer.slots
    if table.kind == "layer":
        return 1 + slots + (holder(job.cluster) != topology.PS)
    return 2 * (1 + slots) + (2 if slots else 0)


def _count_evaluated(job: config.Config, tables: Sequence[Table]) -> int:
    """Returns the bytes that evaluation and export take besides. A process without others evaluates
    in what a save has taken."""
    own = topology.role_counts(job.cluster)[topology.EVALUATOR]
    return ((_EVALUATED if own else 0) + _COMPARED) * sum(table.bytes for table in tables)


def _sum_up(
    job: config.Config, tables: Sequence[Table], copies: Callable[[Table], int], *, each: bool
) -> tuple[str, float]:
    """Returns which processes hold variables, and the bytes that they do with so many `copies` of
    each table: of one that has the most, if `each` counts by itself."""
    cluster = job.cluster
    counts = topology.role_counts(cluster)
    every = sum(copies(table) * table.bytes for table in tables)
    if holder(cluster) == topology.PS:
        count, one, several = counts[topology.PS], "server", "servers"
        cuts = "partition_bytes" in strategy_table.STRATEGIES[cluster.strategy].keys
        largest = cluster.partition_bytes or cluster_config.LARGE_VARIABLE
        cut_above = largest if cuts else None
        most = table_sizes.compute_server_bytes(tables, count, cut_above, copies=copies)
    else:  # each has all tables
        count, one, several = (
            counts[topology.CHIEF] + counts[topology.WORKER],
            "process",
            "processes",
        )
        if strategy_table.STRATEGIES[cluster.strategy].mirrors:
            every *= topology.replicas_per_process(cluster)
        most, every = every, every * count
    if count == 1:
        return f"the {one}", every
    return (f"each of the {count} {several}", most) if each else (f"the {count} {several}", every)


def _explain_size(job: config.Config, largest: Table, alike: int) -> str:
    """Returns how the size of the largest table comes about, of which there are so many `alike`."""
    slots = job.train.optimizer.slots
    copies = f" x {1 + slots} (with what {job.train.optimizer.name} remembers)" if slots else ""
    size = figures.size(largest.bytes * (1 + slots))
    if largest.kind == "layer":
        several = f", {alike} of them" if alike > 1 else ""
        what = f"one_hot makes a layer take at least {largest}{copies} = {size}{several}"
    else:
        whose = "table takes" if largest.kind == "ids" else "positions take"
        what = f"its {whose} {largest}{copies} = {size}"
    return f"features.{largest.feature}: {what}"


def _advise(job: config.Config, largest: Table) -> str:
    fewer = "fewer ids (buckets of hash, top_k of a vocabulary)"
    ways = {
        "ids": ["a smaller embedding", fewer],
        "places": ["a smaller max_items", "a smaller embedding"],
        "layer": ["an embedding with a width", fewer],
    }[largest.kind]
    if job.train.optimizer.slots:
        ways.append("train.optimizer.name=sgd, which remembers nothing")
    more = (
        "more servers (cluster.ps)"
        if holder(job.cluster) == topology.PS
        else ("parameter servers (cluster.strategy=parameter_server)")
    )
    return f"Use {', '.join(ways)}, or {more} on other hosts"
