"""Which records two runs have in common, and which of them both may be compared on.

Records are the same if they have the same `data.key`; without one, or with another in each run, if
they have the same content. A record that either model was trained on says nothing about how well
the two do on new ones, so it is left out.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from pipeline import config, errors, storage
from pipeline.config import SPLITS, model_config
from pipeline.models import MODELS
from pipeline.records import feature_plan, manifest, quarantine, shard_check, tfrecord
from pipeline.runs.run_folder import RunFolder

Key = bytes
# Keys in order, each with how many equal ones come before it.
Numbered = dict[tuple[Key, int], None]


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A run, and the build of records that it was trained on."""

    run: RunFolder
    job: config.Config
    folder: str
    contents: manifest.Manifest
    excluded: quarantine.Excluded

    def read_payloads(self, split: str) -> Iterator[bytes]:
        """Yields the records of a split in the order of the manifest, without blocks left out.
        Raises `DataError` for a shard that is missing or damaged."""
        found = self.contents.splits.get(split)
        excluded, number = self.excluded.get(split, frozenset()), itertools.count()
        for shard in found.shards if found else ():
            path = storage.join(self.folder, shard.path)
            for block, offset in enumerate(shard.blocks):
                if next(number) in excluded:
                    continue
                count = shard.records_in(block, self.contents.block_records)
                try:
                    yield from tfrecord.read(path, offset, count)
                except FileNotFoundError:
                    raise errors.DataError(
                        f"shard {path!r}: is missing. {shard_check.ways_out(self.folder)}"
                    ) from None


@dataclasses.dataclass(frozen=True)
class Count:
    """Records of one split: how many are in both runs, only in A, and only in B."""

    split: str
    common: int
    only_a: int
    only_b: int


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The records of a split on which two runs are compared: `a` and `b` are their places in the
    split of each run, `[pairs]` int64. `trained` is how many more they share that one of the two
    was trained on; `by` says how the same records were found."""

    a: np.ndarray
    b: np.ndarray
    trained: int
    counts: tuple[Count, ...]
    by: str


def pair(a: ComparedRun, b: ComparedRun, split: str) -> Pairs:
    """Returns the records of `split` that both runs have and neither was trained on. Raises
    `DataError` if there are none."""
    if a.contents.sha256 == b.contents.sha256 and a.excluded == b.excluded:
        counts = tuple(
            Count(name, sum(_list_block_sizes(a, name)), 0, 0)
            for name in SPLITS
            if name in a.contents.splits
        )
        everything = np.arange(sum(_list_block_sizes(a, split)), dtype=np.int64)
        return Pairs(everything, everything, 0, counts, "the same records")
    columns, by = _choose_columns(a, b)
    of = _build_key_function(columns)
    keys: list[dict[str, Numbered]] = [
        {name: _number_keys(map(of, side.read_payloads(name))) for name in SPLITS}
        for side in (a, b)
    ]
    counts = tuple(_count(name, keys[0][name], keys[1][name]) for name in SPLITS)
    places = {key: n for n, key in enumerate(keys[1][split])}
    shared = [(n, places[key], key) for n, key in enumerate(keys[0][split]) if key in places]
    # The first of equal records stands for all: training on one of them is training on them all.
    trained = {key for side in keys for key, _ in side["train"]}
    kept = [(one, other) for one, other, (key, _) in shared if key not in trained]
    if not kept:
        raise errors.DataError(_describe_no_pairs(a, b, split, shared=len(shared), by=by))
    found = np.array(kept, np.int64)
    return Pairs(found[:, 0], found[:, 1], len(shared) - len(kept), counts, by)


def _list_block_sizes(side: ComparedRun, split: str) -> Iterable[int]:
    found = side.contents.splits.get(split)
    excluded, number = side.excluded.get(split, frozenset()), itertools.count()
    for shard in found.shards if found else ():
        for block in range(len(shard.blocks)):
            if next(number) not in excluded:
                yield shard.records_in(block, side.contents.block_records)


def _describe_no_pairs(a: ComparedRun, b: ComparedRun, split: str, *, shared: int, by: str) -> str:
    why = f"all {shared:,} that they share were trained on by one of them" if shared else by
    return (
        f"runs {a.run.name!r} and {b.run.name!r}: have no record of {split} in common to compare "
        f"them on ({why}). Compare runs whose {split} splits overlap, or another split with SPLIT="
    )


def _choose_columns(a: ComparedRun, b: ComparedRun) -> tuple[Sequence[str] | None, str]:
    """Returns the columns whose values name a record, `None` for all of its bytes, and in words."""
    own = a.job.data.key
    if own and own == b.job.data.key:
        return own, f"the same data.key ({', '.join(own)})"
    kinds = [
        {name: config.digest(column) for name, column in side.contents.columns.items()}
        for side in (a, b)
    ]
    if kinds[0] == kinds[1]:
        return None, "the same content"
    common = sorted(kinds[0].keys() & kinds[1].keys())
    return common, f"the same values of {len(common)} common columns"


def _build_key_function(columns: Sequence[str] | None) -> Callable[[bytes], Key]:
    if columns is None:
        return lambda payload: hashlib.blake2b(payload, digest_size=16).digest()
    names = sorted(columns)
    from tensorflow.core.example import example_pb2  # a second; only where schemas differ

    def compute_key(payload: bytes) -> Key:
        found = hashlib.blake2b(digest_size=16)
        values = example_pb2.Example.FromString(payload).features.feature
        for name in names:
            value = values[name].SerializeToString(deterministic=True) if name in values else b"-"
            found.update(len(value).to_bytes(8, "little") + value)
        return found.digest()

    return compute_key


def _number_keys(keys: Iterable[Key]) -> Numbered:
    """Returns keys in order, each with how many equal ones come before it."""
    seen: collections.Counter[Key] = collections.Counter()
    found: Numbered = {}
    for key in keys:
        found[key, seen[key]] = None
        seen[key] += 1
    return found


def _count(split: str, a: Numbered, b: Numbered) -> Count:
    common = len(a.keys() & b.keys())
    return Count(split, common, len(a) - common, len(b) - common)


def check_alike(a: ComparedRun, b: ComparedRun) -> None:
    """Raises `UsageError` for runs whose metrics are not of the same thing, before TensorFlow is
    imported: another label, task, number of classes, or other names of classes."""
    for what, one, other in _list_targets(a, b):
        if one != other:
            raise errors.UsageError(
                f"runs {a.run.name!r} and {b.run.name!r}: cannot be compared, because {what} is "
                f"{reprlib.repr(one)} in one and {reprlib.repr(other)} in the other; compare runs "
                "that learn the same"
            )


def _list_targets(a: ComparedRun, b: ComparedRun) -> Iterator[tuple[str, object, object]]:
    labels = [feature_plan.plan(side.job, side.contents).label for side in (a, b)]
    yield "data.label", a.job.data.label, b.job.data.label
    models = [side.job.model for side in (a, b)]
    if all(model.name in MODELS for model in models):  # of others nothing is known
        tasks = [model_config.params(model).get("task", "classification") for model in models]
        yield "model.params.task", tasks[0], tasks[1]
    for name in ("threshold", "values"):
        yield f"label.{name}", getattr(labels[0], name), getattr(labels[1], name)
