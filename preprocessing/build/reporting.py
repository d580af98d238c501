"""What preprocessing shows: its progress, its dead letters, and what it has made."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from pipeline import config, storage
from pipeline.config.date_rules import Unruled
from pipeline.console import figures, progress, terminal
from pipeline.records import builds, manifest
from preprocessing.build import enough
from preprocessing.dead_letters import letter_files
from preprocessing.rows import sample, undated
from preprocessing.runners import worker_files
from preprocessing.shards import record_folders, scanned, spill
from preprocessing.sources.base import Chunk, Source


def report_progress(
    folders: record_folders.Folders, rows: int | None
) -> contextlib.AbstractContextManager[None]:
    """Shows how many of `rows` have been read and written while the body runs."""
    return worker_files.watch_files(
        folders.temporary, functools.partial(_show_progress, folders, rows)
    )


def report_scan(
    folders: record_folders.Folders, size: int
) -> contextlib.AbstractContextManager[None]:
    """Shows how many of `size` bytes have been scanned while the body runs."""
    return worker_files.watch_files(folders.temporary, functools.partial(_show_scan, folders, size))


def _show_scan(folders: record_folders.Folders, size: int, more: Callable[[], bool]) -> None:
    with progress.Progress("scanning", size, unit="bytes") as scan:
        scan.begin_at(scanned.count_bytes_read(folders.temporary))
        while more():
            scan.reach(scanned.count_bytes_read(folders.temporary))


def _show_progress(
    folders: record_folders.Folders, rows: int | None, more: Callable[[], bool]
) -> None:
    read = 0
    with progress.Progress("reading", rows) as reading:
        reading.begin_at(spill.count_rows_written(folders.temporary))
        while more() and not folders.count_finished_rows():
            read = spill.count_rows_written(folders.temporary)
            bad = letter_files.count_letters_written(folders.temporary)
            reading.reach(read, f"{bad:,} dead letters" if bad else "")
            if read == rows:
                break
    with progress.Progress("writing", rows or read) as writing:
        while more():
            writing.reach(folders.count_finished_rows())


def check_dead_letters(
    data: config.Data, folders: record_folders.Folders, *, dates: Unruled
) -> manifest.Sampled | None:
    """Stores the dead letters and prints a summary, also of other values in columns of `dates`.

    Returns what `data.sample` left out. Raises `DataError` if there are too many dead letters.
    """
    tallies = letter_files.gather(folders)
    for split, tally in sorted(tallies.items()):
        if tally.dropped:
            why = letter_files.explain_drops(data.columns)
            print(f"{split}: {tally.dropped:,} of {tally.read:,} rows dropped: {why}")
        for name, count in sorted(tally.truncated.items()):
            column = data.columns[name]
            end = "last" if column.on_longer == "keep_last" else "first"
            print(
                f"{split}: {count:,} rows had more than {column.max_items} items in {name}; "
                f"the {end} were kept"
            )
        for line in undated.format_warnings(tally.undated, dates):
            print(f"warning: {split}: {line}")
        if tally.rejected:
            print(f"{split}: {tally.rejected:,} of {tally.read:,} rows are dead letters:")
            print("\n".join(f"  {line}" for line in tally.format_lines()))
    if any(tally.rejected for tally in tallies.values()):
        print(f"see {terminal.display_path(folders.dead_letters)}", flush=True)
    letter_files.check_budget(tallies, data, folders.dead_letters)
    return sample.report_sample(data, sum(tally.sampled for tally in tallies.values()))


def check_budget_again(data: config.Data, build: str) -> None:
    """Raises `DataError` if an earlier run has left more rows out of a build than
    `data.error_budget` allows by now: a smaller budget makes no other build."""
    letter_files.check_again(data, storage.join(build, record_folders.DEAD_LETTERS))


def print_warnings(data: config.Data, result: manifest.Manifest) -> None:
    """Prints what may be wrong with records that are complete."""
    for line in enough.find_warnings(data, result):
        print(f"warning: {line}", flush=True)


def print_label_warnings(data: config.Data, result: manifest.Manifest) -> None:
    """Prints what may be wrong with the labels of records, also of those that were there already:
    each start of a run does."""
    for line in enough.find_label_warnings(data, result):
        print(f"warning: {line}", flush=True)


def print_what_is_read(data: config.Data, chunks: list[Chunk], source: Source) -> None:
    """Prints how much there is to read, and from where."""
    for split in sorted(data.inputs):
        counts = [chunk.rows for chunk in chunks if chunk.split == split]
        rows = "" if None in counts else f"{sum(c or 0 for c in counts):,} records of "
        paths = ", ".join(map(terminal.display_path, data.inputs[split].values()))
        print(f"reading {rows}{split} {'in place,' if data.in_place else 'from'} {paths}")
    size = sum(storage.size(file.path) for file in source.files())
    print(f"{figures.size(size)} in all", flush=True)
    for remark in source.remarks:
        print(f"warning: {remark}", flush=True)


def print_up_to_date(found: manifest.Manifest, folder: str) -> None:
    """Prints that there is nothing to do."""
    shown = terminal.display_path(folder)
    print(f"{shown}: up to date ({_format_counts(found)}), nothing to do", flush=True)


def print_what_was_made(result: manifest.Manifest, folder: str, seconds: float) -> None:
    """Prints how many records were made, how fast, and where they are."""
    records = sum(split.records for split in result.splits.values())
    print(
        f"{_format_counts(result)}: {records:,} records in {seconds:.1f} s "
        f"({records / seconds:,.0f}/s), in {terminal.display_path(folder)}",
        flush=True,
    )


def print_what_is_kept(records: str, current: str) -> None:
    """Prints how many bytes other builds than the current one take, by their manifests."""
    others = [build for build in builds.list_published(records) if build != current]
    if others:
        size = sum(builds.size(storage.join(records, build)) for build in others)
        print(
            f"{len(others)} other {'build' if len(others) == 1 else 'builds'} of these records "
            f"{'takes' if len(others) == 1 else 'take'} {figures.size(size)}; make clean-records "
            "lists them, and removes those that no run uses",
            flush=True,
        )


def _format_counts(result: manifest.Manifest) -> str:
    return ", ".join(f"{name} {split.records:,}" for name, split in result.splits.items())
