"""Rows that could not become records: kept with the reason, counted, and held against the budget.

Workers leave letters and tallies in the temporary folder; the driver puts them together in the
order of the raw rows, so the files are the same for any number of workers.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

from pipeline import config, errors, storage
from pipeline.storage import strict_json
from preprocessing.rows.undated import Counts, merge
from preprocessing.shards import summed
from preprocessing.shards.record_folders import Folders
from preprocessing.sources.base import Letter

# Letters in a file stand in its name, so that progress can be seen by listing the folder.
_LETTERS = re.compile(r"^(?P<split>[a-z]+)-[a-z0-9-]+\.bad(?P<count>\d+)\.jsonl$")
_TALLY = re.compile(r"^(?P<split>[a-z]+)-[a-z0-9-]+\.tally\.json$")
# The tally of all splits is kept next to the letters of a build.
_ALL = "all"
# How many kinds of problems an error names; the summary has all.
_NAMED = 3
# What leaves out some bad rows.
_BUDGET = 'SET="data.error_budget=0.01"'


@dataclasses.dataclass
class Tally:
    """What became of rows that were read. `bad` counts letters by column and reason, `truncated`
    rows whose list lost items, by column, `sampled` those that `data.sample` left out, `undated`
    what the step `date` cannot read."""

    read: int = 0
    dropped: int = 0
    bad: collections.Counter[tuple[str, str]] = dataclasses.field(
        default_factory=collections.Counter
    )
    truncated: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    sampled: int = 0
    undated: Counts = dataclasses.field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Adds the counts of other rows."""
        self.read += other.read
        self.dropped += other.dropped
        self.bad.update(other.bad)
        self.truncated.update(other.truncated)
        self.sampled += other.sampled
        self.add_undated(other.undated)

    def add_undated(self, counts: Counts) -> None:
        """Adds what the step `date` cannot read of other rows."""
        self.undated = merge(self.undated, counts)

    @property
    def rejected(self) -> int:
        """Number of letters."""
        return self.bad.total()

    def format_lines(self) -> list[str]:
        """Returns the kinds of problems, the most frequent first."""
        order = sorted(self.bad.items(), key=lambda item: (-item[1], item[0]))
        return [
            f"{count:,} x {column} {reason}".replace("  ", " ") for (column, reason), count in order
        ]


def write(
    folder: str, origin: str, letters: Sequence[Letter], *, sums: summed.Sums | None = None
) -> None:
    """Writes letters of rows read from one place; `origin` is `<split>-<...>` and sorts by it.
    Notes in `sums` what the file is."""
    if letters:
        text = "".join(f"{strict_json.dumps(_list_values(letter))}\n" for letter in letters)
        path = storage.join(folder, f"{origin}.bad{len(letters)}.jsonl")
        summed.write_text(path, text, sums)


def write_tally(folder: str, origin: str, tally: Tally, *, sums: summed.Sums | None = None) -> None:
    """Notes what became of the rows of one place, and in `sums` what the file is."""
    bad = [[column, reason, count] for (column, reason), count in sorted(tally.bad.items())]
    values: dict[str, object] = {"read": tally.read, "dropped": tally.dropped, "bad": bad}
    if tally.truncated:
        values["truncated"] = dict(sorted(tally.truncated.items()))
    if tally.sampled:
        values["sampled"] = tally.sampled
    if tally.undated:
        values["undated"] = tally.undated
    summed.write_text(_name_tally(folder, origin), strict_json.dumps(values), sums)


def _name_tally(folder: str, origin: str) -> str:
    return storage.join(folder, f"{origin}.tally.json")


def count_letters(
    letters: Sequence[Letter],
    read: int = 0,
    dropped: int = 0,
    *,
    truncated: Mapping[str, int] | None = None,
    sampled: int = 0,
) -> Tally:
    """Counts letters by column and reason; `truncated` are rows by column."""
    kinds = collections.Counter((letter.column or "", letter.reason) for letter in letters)
    return Tally(read, dropped, kinds, +collections.Counter(truncated or {}), sampled)


def count_letters_written(folder: str) -> int:
    """Returns how many letters the files in `folder` hold."""
    found = (_LETTERS.match(name) for name in storage.listdir(folder))
    return sum(int(match["count"]) for match in found if match)


def gather(folders: Folders) -> dict[str, Tally]:
    """Moves all letters to one file per split in the build's folder; returns the tally of each.
    Keeps that of all splits there too, for `check_again`, unless no row is bad."""
    folder = folders.dead_letters
    tallies = collect(folders.temporary, lambda split: storage.join(folder, f"{split}.jsonl"))
    total = _add_up(tallies)
    if total.rejected:
        write_tally(folder, _ALL, dataclasses.replace(total, undated={}))
    return tallies


def collect(temporary: str, path_of: Callable[[str], str]) -> dict[str, Tally]:
    """Moves all letters of a split to the file `path_of` says; returns the tally of each."""
    tallies: dict[str, Tally] = {}
    letters: dict[str, list[str]] = {}
    for name in storage.listdir(temporary):
        path = storage.join(temporary, name)
        if match := _TALLY.match(name):
            tallies.setdefault(match["split"], Tally()).add(_read_tally(path))
        elif match := _LETTERS.match(name):
            letters.setdefault(match["split"], []).append(path)
    for split, paths in letters.items():
        target = path_of(split)
        storage.makedirs(storage.parent(target))
        with storage.open_file(target, "wb") as file:
            for path in paths:
                with storage.open_file(path) as part:
                    file.write(part.read())
    return tallies


def explain_drops(columns: Mapping[str, config.Column]) -> str:
    """Returns why rows are dropped: which columns they lack, and which key drops them."""
    names = [name for name, column in columns.items() if column.missing == "drop"]
    listed = " or ".join(map(repr, names[:_NAMED]))
    more = f" or {len(names) - _NAMED} more columns" if len(names) > _NAMED else ""
    key = names[0] if len(names) == 1 else "<column>"
    return f"no value in {listed}{more} (data.columns.{key}.missing: drop)"


def check_budget(tallies: dict[str, Tally], data: config.Data, folder: str) -> None:
    """Raises `DataError` if more rows are bad than `data.error_budget` allows, or none is left."""
    check_total(_add_up(tallies), data, folder)
    for split in sorted(data.inputs):
        tally = tallies.get(split, Tally())
        where = f"data.inputs.{split} ({', '.join(data.inputs[split].values())})"
        if not tally.read:
            raise errors.DataError(f"{where}: no rows")
        if tally.read == tally.dropped + tally.rejected + tally.sampled:
            sampled = f", {tally.sampled:,} left out by data.sample" if tally.sampled else ""
            why = (
                f". Dropped were those with {explain_drops(data.columns)}" if tally.dropped else ""
            )
            raise errors.DataError(
                f"{where}: none of {tally.read:,} rows is left: {tally.dropped:,} dropped, "
                f"{tally.rejected:,} bad{sampled}{why}"
            )


def check_again(data: config.Data, folder: str) -> None:
    """Raises `DataError` if a build whose dead letters are in `folder` has more of them than
    `data.error_budget` allows by now. Those of earlier versions have no count, and are accepted."""
    path = _name_tally(folder, _ALL)
    if storage.exists(path):
        check_total(_read_tally(path), data, folder)


def build_error(letter: Letter, data: config.Data, setting: str = _BUDGET) -> errors.DataError:
    """Returns the error of a bad row where none is allowed; `setting` allows some, unless the rows
    are used in place."""
    allow = "" if data.in_place else f". To leave out bad rows, up to 1 % of all: {setting}"
    return errors.DataError(f"{letter}{allow}")


def check_total(total: Tally, data: config.Data, where: str) -> None:
    """Raises `DataError` if more rows are bad than `data.error_budget` allows; they are `where`."""
    budget = data.error_budget
    allowed = budget * total.read if budget < 1 else budget
    if total.rejected > allowed:
        kinds = "; ".join(total.format_lines()[:_NAMED])
        raise errors.DataError(
            f"{total.rejected:,} of {total.read:,} rows are bad, data.error_budget {budget:g} "
            f"allows {int(allowed):,}: {kinds}. They are in {where!r}, each with its reason"
        )


def _add_up(tallies: Mapping[str, Tally]) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    return total


def _read_tally(path: str) -> Tally:
    values = strict_json.loads(storage.read_text(path))
    bad = collections.Counter({(column, reason): n for column, reason, n in values["bad"]})
    truncated = collections.Counter(values.get("truncated", {}))
    without_dates = {name: (n, text) for name, (n, text) in values.get("undated", {}).items()}
    sampled = values.get("sampled", 0)
    return Tally(values["read"], values["dropped"], bad, truncated, sampled, without_dates)


def _list_values(letter: Letter) -> dict[str, object]:
    return dataclasses.asdict(letter)
