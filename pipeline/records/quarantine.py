"""Which blocks a run does without, because they cannot be read: `data.on_corrupt` and its budget.

Decided once a start, by the chief, before anything is read. All processes of the run, and later
commands on it, go by the file it leaves in the run folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline import config, errors
from pipeline.records import manifest, scan, shard_check
from pipeline.runs.run_folder import EXCLUDED, RunFolder

# Blocks of each split, by their number in the order of the manifest.
Excluded = Mapping[str, frozenset[int]]

_NAMED = 3  # problems in an error
_WHY = {
    "unreadable": f"unreadable, see {EXCLUDED} of the run (data.on_corrupt)",
    "repaired": f"their shards were damaged, see {manifest.FILE_NAME} (make verify REPAIR=1)",
}


def decide(
    walked: Sequence[scan.Walked], contents: manifest.Manifest, data: config.Data, *, folder: str
) -> Excluded:
    """Returns what the policy leaves out of what was found of the records in `folder`.

    Raises `DataError` if the policy is to fail, if it is more than the budget, or if nothing is
    left of a split.
    """
    damaged = [one for one in walked if not one.intact]
    if damaged and data.on_corrupt == "fail":
        raise errors.DataError(f"{summarize(walked)}. {shard_check.ways_out(folder)}")
    excluded = _find_excluded(walked, whole_shards=data.on_corrupt == "quarantine_shard")
    lost = records_in(excluded, contents)
    total = sum(split.records for split in contents.splits.values())
    budget = data.corrupt_budget
    allowed = int(budget * total if budget < 1 else budget)
    if sum(lost.values()) > allowed:
        raise errors.DataError(
            f"{sum(lost.values()):,} of {total:,} records would be left out, data.corrupt_budget "
            f"{budget:g} allows {allowed:,}: {summarize(walked)}"
        )
    for split, count in lost.items():
        if count == contents.splits[split].records:
            raise errors.DataError(
                f"no record of split {split!r} would be left: {summarize(walked)}"
            )
    return excluded


def summarize(walked: Sequence[scan.Walked]) -> str:
    """Returns the first problems in one line."""
    lines = list(scan.report(walked, first=2))
    more = f"; and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return "; ".join(f"shard {line}" for line in lines[:_NAMED]) + more


def _find_excluded(walked: Sequence[scan.Walked], *, whole_shards: bool) -> Excluded:
    excluded: dict[str, set[int]] = {}
    begins: dict[str, int] = {}
    for one in walked:
        first = begins.get(one.split, 0)
        count = len(one.shard.blocks)
        begins[one.split] = first + count
        bad = range(count) if whole_shards and not one.intact else one.bad
        excluded.setdefault(one.split, set()).update(first + block for block in bad)
    return {split: frozenset(blocks) for split, blocks in excluded.items() if blocks}


def records_in(excluded: Excluded, contents: manifest.Manifest) -> dict[str, int]:
    """Returns how many records the blocks have, by split."""
    sizes = {
        name: [
            shard.records_in(block, contents.block_records)
            for shard in split.shards
            for block in range(len(shard.blocks))
        ]
        for name, split in contents.splits.items()
    }
    return {name: sum(sizes[name][block] for block in blocks) for name, blocks in excluded.items()}


def count_left_out(excluded: Excluded, contents: manifest.Manifest) -> dict[str, dict[str, int]]:
    """Returns how many records a run does without, by split and cause: `unreadable`, as it has
    found them, or `repaired`, by a repair of the manifest before."""
    found: dict[str, dict[str, int]] = {}
    for split, count in records_in(excluded, contents).items():
        found.setdefault(split, {})["unreadable"] = count
    for one in contents.left_out or ():
        of_split = found.setdefault(one.split, {})
        of_split["repaired"] = of_split.get("repaired", 0) + one.records
    return found


def describe(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Returns what `count_left_out` counts, as lines for people."""
    return [
        f"{count:,} records of split {split} are left out: {_WHY[cause]}"
        for split, causes in counts.items()
        for cause, count in causes.items()
    ]


def write(
    run: RunFolder,
    excluded: Excluded,
    *,
    walked: Sequence[scan.Walked],
    contents: manifest.Manifest,
) -> None:
    """Records for all processes of the run what to leave out; it holds until the next start.

    Raises `DataError` if other blocks were recorded before: other processes may have read those.
    """
    before = run.read(EXCLUDED)
    blocks = {split: sorted(numbers) for split, numbers in excluded.items()}
    if before is not None and before["blocks"] != blocks:
        raise errors.DataError(
            f"records were damaged while the run was under way: {summarize(walked)}. Run the same "
            "command again to continue without them"
        )
    run.write(
        EXCLUDED,
        {
            "records": records_in(excluded, contents),
            "blocks": blocks,
            "found": list(scan.report(walked)),
        },
    )


def read(run: RunFolder) -> Excluded:
    """Returns the blocks that the run leaves out; empty if none were recorded."""
    found = run.read(EXCLUDED)
    return {split: frozenset(n) for split, n in found["blocks"].items()} if found else {}
