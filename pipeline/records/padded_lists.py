"""What lists take in memory: each is padded to `max_items`, however long the longest is."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.config import model_config
from pipeline.console import figures
from pipeline.records import feature_plan, table_sizes
from pipeline.records.manifest import Manifest

# Bytes of an item. Of a text it is the string itself, tsl/platform/ctstring_internal.h; the bytes
# of one with more than 22 come besides.
_ITEM = {"string": 24, "int64": 8, "float32": 4}
# Batches of lists that are in memory at most, as measured: texts of training that become ids batch
# by batch were 4.2. Where they become ids before, it is a quarter of that.
_TRAINED, _EVALUATED = 4, 3
# Bytes of a number of a vector; and the gradient of each.
_FLOAT, _GRADIENTS = 4, 2
# Lists that are padded to more than so many items, and to more than so many times the longest.
_MANY, _TIMES = 64, 4


def check(job: config.Config, contents: Manifest | None, free: float, *, words: str) -> None:
    """Raises `UsageError` if the lists of the rows that are parsed at a time, or the vectors of a
    batch, take more than is `free`, in bytes, of which `words` say whose they are."""
    lists = _list_bytes(job)
    batch, evaluated = topology.examples_per_process(job), job.eval.batch_size
    rows, copies = max((batch, _TRAINED), (evaluated, _EVALUATED), key=math.prod)
    needed = rows * copies * sum(lists.values())
    if needed <= free:
        if contents is not None:
            _check_vectors(job, contents, free, parsed=needed, words=words)
        return
    name = max(lists, key=lambda one: lists[one])
    column = job.data.columns[name]
    longest = None if contents is None else _find_longest(contents, name)
    known = "" if longest is None else f"; the longest list of train has {longest:,} items"
    raise errors.UsageError(
        f"data.columns.{name}.max_items is {column.max_items:,}, to which each list is padded: "
        f"{rows:,} rows that are parsed at a time take {figures.size(needed)} with copies, and "
        f"{words}. Use a smaller max_items{known}"
    )


def _check_vectors(
    job: config.Config, contents: Manifest, free: float, *, parsed: int, words: str
) -> None:
    """Raises `UsageError` if the vectors of sequences, with their gradients, take more than is
    `free` besides what is `parsed`, in bytes: those of a batch are padded to its longest list, and
    one batch has that of train."""
    settings, found = model_config.find_shipped_settings(job.model), []
    batch = topology.examples_per_process(job)
    for name, feature in job.features.items():
        if not feature.sequence or settings is None:
            continue
        longest = _find_longest(contents, feature.inputs(name)[0])
        width = table_sizes.find_width(job, name, contents)
        if longest is not None and width is not None:
            width = settings.item_width(width)
            found.append((_GRADIENTS * batch * longest * width * _FLOAT, longest, width, name))
    if sum(size for size, _, _, _ in found) <= free - parsed:
        return
    size, items, width, name = max(found)
    raise errors.UsageError(
        f"features.{name}: a batch is padded to its longest list, and one of train has {items:,} "
        f"items: {batch:,} rows take {batch:,} x {items:,} x {width:,} x {_FLOAT} bytes x "
        f"{_GRADIENTS} (with gradients) = {figures.size(size)}, the lists that are parsed take "
        f"{figures.size(parsed)}, and {words}. "
        "Use a smaller max_items, train.batch_size or embedding"
    )


def warnings(job: config.Config, contents: Manifest) -> Iterator[str]:
    """Yields a line for each column whose lists are mostly padding."""
    for name in _list_bytes(job):
        most, longest = job.data.columns[name].max_items or 0, _find_longest(contents, name)
        if longest is not None and most > max(_MANY, _TIMES * longest):
            yield (
                f"data.columns.{name}.max_items is {most:,}, and the longest list of train has "
                f"{longest:,} items: each is padded to {most:,}, which costs time and memory. Use "
                f"a smaller max_items, such as {max(1, 2 * longest):,}"
            )


def _list_bytes(job: config.Config) -> dict[str, int]:
    """Returns the bytes of a row's padded list, by column."""
    return {
        name: (column.max_items or 0) * _ITEM[column.type]
        for name, column in feature_plan.select_columns(job).items()
        if column.list
    }


def _find_longest(contents: Manifest, name: str) -> int | None:
    """Returns how many items the longest list of train has; `None` if that was not counted."""
    train = contents.statistics.get("train")
    found = None if train is None else train.columns.get(name)
    if found is None or found.lengths is None or found.lengths.max is None:
        return None
    return int(found.lengths.max)
