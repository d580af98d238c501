"""The whole of preprocessing: from a config to published records.

Order matters: a build is written in a folder of its own, its manifest when all else is there, and
then the pointer that makes it the current one. Whatever is killed when, a build is complete or is
not there, and earlier ones are as they were.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from pipeline import config, errors, storage
from pipeline.console import progress, terminal
from pipeline.processes.fork_client import ForkServer
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing import sources
from preprocessing.build import enough, fingerprint, resume
from preprocessing.dead_letters import corrections, letter_files
from preprocessing.rows import placement
from preprocessing.rows.split import existing
from preprocessing.runners import dataflow_job, worker_server
from preprocessing.runners.beam_import import import_beam
from preprocessing.shards import pieces, record_folders, spill
from preprocessing.sources import together
from preprocessing.sources.base import Chunk, Source

# Seconds between two looks at how far the workers are.
_POLL, _REMOTE_POLL = 0.2, 2.0


def run(
    job: config.Config,
    storage_root: str,
    *,
    num_workers: int = 1,
    pipeline_options: Sequence[str] = (),
    force: bool = False,
    elsewhere: dataflow_job.Follower | None = None,
    for_run: run_folder.RunFolder | None = None,
) -> manifest.Manifest:
    """Makes the records of `job` below `storage_root` unless they are there already, and then too
    with `force`. Waits for another process that makes them. `elsewhere` follows a job on Dataflow.
    The build is the current one then, and the one that `for_run` is pinned to.

    Raises `DataError` for bad raw data, `UsageError` for a place that cannot be written to,
    `RetryableError` for a full disk; after any of them, finished builds are as they were.
    """
    records = run_folder.records_folder(storage_root, job.name)
    how = _How(num_workers, tuple(pipeline_options), force, elsewhere)
    try:
        storage.makedirs(records)
        source = together.over(corrections.over(sources.choose(job.data), records))
        base = fingerprint.base(job.data, source.files())
        with record_folders.locked(records, base):
            build, made = _build(job.data, source, records, base, how)
            if for_run is not None:
                builds.pin(for_run, job.name, build)
            builds.make_current(records, build)
    except OSError as error:
        raise errors.from_os_error(error, f"cannot write records in {records!r}") from None
    _say_what_is_kept(records, build)
    return made


@dataclasses.dataclass(frozen=True)
class _How:
    num_workers: int
    pipeline_options: tuple[str, ...]
    force: bool
    elsewhere: dataflow_job.Follower | None


def _build(
    data: config.Data, source: Source, records: str, base: str, how: _How
) -> tuple[str, manifest.Manifest]:
    """Returns the name and the manifest of a finished build of `data`. The lock must be held."""
    started = time.monotonic()
    record_folders.adopt(records)
    used = record_folders.numbered(records, base)
    killed = record_folders.left(records, base)
    left = resume.look(killed, data, source, how.pipeline_options, force=how.force)
    resume.say_why_not(left)
    record_folders.sweep(records, base, left.folders)
    with _hashing(source) as hashes:
        if not how.force and not _without_files(source):
            for build, found in _finished(records, base):
                if found.fingerprint == fingerprint.fingerprint(data, hashes.result()):
                    _say_up_to_date(found, storage.join(records, build))
                    resume.discard(left)
                    return build, found
        with _workers(data, how) as server:
            chunks = [chunk for split in sorted(data.inputs) for chunk in source.plan(split)]
            _say_what_is_read(data, chunks, source)
            job = _job_elsewhere(how, records, base, data, hashes)
            submitted = job.folders() if job else None
            folders = submitted or record_folders.prepare(records, base, used)
            stays = False
            try:
                if job and submitted:
                    with _reporting(folders, None):
                        job.follow()
                else:
                    keeping = resume.begin(left, chunks, folders.temporary)
                    with hashes.noted(
                        lambda found: resume.note_fingerprint(
                            left, folders.temporary, fingerprint.fingerprint(data, found)
                        )
                    ):
                        _run_beam(chunks, source, data, folders, how, server, job, keeping)
                _judge_rows(data, folders)
                result = _manifest(data, folders, hashes.result())
                resume.check(left, result.fingerprint, folders.temporary)
                enough.check(data, result)
                same = None if how.force else _equal(records, base, result)
                if same is None:
                    manifest.write(folders.build, result, new=True)
            except BaseException as error:
                stays = resume.can_be_used(folders.temporary, error)
                raise
            finally:
                if job is None or not job.goes_on():
                    if not stays:
                        record_folders.remove(folders.temporary)
                    if not builds.is_published(records, folders.build_name):
                        record_folders.abandon(folders.build)
    build = same or folders.build_name
    if same:
        record_folders.remove(folders.build)
    _say_what_was_made(result, storage.join(records, build), time.monotonic() - started)
    _warn(data, result)
    return build, result


def _job_elsewhere(
    how: _How, records: str, base: str, data: config.Data, hashes: _Hashes
) -> dataflow_job.Job | None:
    if how.elsewhere is None:
        return None
    made_of = fingerprint.fingerprint(data, hashes.result())
    return dataflow_job.Job(how.elsewhere, records, base, made_of)


def _warn(data: config.Data, result: manifest.Manifest) -> None:
    for line in enough.warnings(data, result):
        print(f"warning: {line}", flush=True)


class _Hashes:
    """Raw files that a thread hashes in the background, where it costs nothing on a second core."""

    def __init__(self, source: Source, thread: concurrent.futures.ThreadPoolExecutor) -> None:
        self._thread, self._stop = thread, threading.Event()
        self._found = thread.submit(fingerprint.sources, source.files(), self._stop)

    def result(self) -> tuple[manifest.Source, ...]:
        """Waits for the end of the hashing."""
        return self._found.result()

    def stop(self) -> None:
        """Ends the hashing soon, without a result."""
        self._stop.set()

    @contextlib.contextmanager
    def noted(self, note: Callable[[tuple[manifest.Source, ...]], None]) -> Iterator[None]:
        """Calls `note` with the result once it is known, unless the body ends before."""

        def wait_and_note() -> None:
            if self._found.exception() is None:
                note(self.result())

        # It waits for the hashing, which has the only thread.
        pending = self._thread.submit(wait_and_note)
        try:
            yield
        finally:
            if not pending.cancel():
                concurrent.futures.wait([pending])


@contextlib.contextmanager
def _hashing(source: Source) -> Iterator[_Hashes]:
    """Hashes the raw files until the body ends."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        hashes = _Hashes(source, thread)
        try:
            yield hashes
        finally:
            hashes.stop()


def _finished(records: str, base: str) -> Iterator[tuple[str, manifest.Manifest]]:
    """Yields the builds of a base whose shards are all there with the right size, newest first."""
    for build in record_folders.numbered(records, base):
        folder = storage.join(records, build)
        try:
            found = manifest.read(folder)
        except errors.DataError:
            continue
        damage = next(manifest.damages(folder, found, contents=False), None)
        if damage is None:
            yield build, found
        else:
            print(f"{damage}; making the records again", flush=True)


def _without_files(source: Source) -> bool:
    """True if nobody knows what a transform of the user's own will read."""
    return not source.files()


def _equal(records: str, base: str, made: manifest.Manifest) -> str | None:
    """Returns a finished build with the same records: of inputs that nobody can hash, they may be
    what they were."""
    return next(
        (build for build, found in _finished(records, base) if found.sha256 == made.sha256), None
    )


def _cloud(data: config.Data, pipeline_options: Sequence[str]) -> bool:
    """Tells if Beam may be asked for Google Cloud, by its flags or by a transform of the user's."""
    return bool(pipeline_options) or data.source not in sources.SOURCES


def _workers(data: config.Data, how: _How) -> contextlib.AbstractContextManager[ForkServer | None]:
    """Starts the server of worker processes as early as it is known that there will be any."""
    if how.num_workers == 1 or any(o.startswith("--runner") for o in how.pipeline_options):
        return contextlib.nullcontext()
    return worker_server.start(_cloud(data, how.pipeline_options))


def _run_beam(
    chunks: list[Chunk],
    source: Source,
    data: config.Data,
    folders: record_folders.Folders,
    how: _How,
    server: ForkServer | None,
    job: dataflow_job.Job | None,
    keeping: pieces.Keeping,
) -> None:
    import_beam(cloud=_cloud(data, how.pipeline_options))
    from preprocessing.build import beam_pipeline
    from preprocessing.runners import beam_options

    options = beam_options.build(how.pipeline_options, how.num_workers)
    local = f", workers: {beam_options.workers(options)}" if beam_options.is_local(options) else ""
    print(f"running on Beam's {beam_options.runner_name(options)}{local}", flush=True)
    rows = None if any(chunk.rows is None for chunk in chunks) else sum(c.rows or 0 for c in chunks)
    follow = None if job is None else functools.partial(job.submitted, folders)
    runner = beam_options.runner(options, server)
    with _reporting(folders, rows), beam_options.quiet(options), dataflow_job.explained(job):
        beam_pipeline.run(chunks, source, data, folders, runner, options, follow, keeping)


@contextlib.contextmanager
def _reporting(folders: record_folders.Folders, rows: int | None) -> Iterator[None]:
    """Shows progress while the body runs, by looking at the files that workers leave.

    Files are what workers in this process, in others and on other hosts have in common.
    """
    finished = threading.Event()
    thread = threading.Thread(target=_report, args=(folders, rows, finished), daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _report(folders: record_folders.Folders, rows: int | None, finished: threading.Event) -> None:
    read = 0
    poll = _REMOTE_POLL if storage.is_remote(folders.temporary) else _POLL
    with progress.Progress("reading", rows) as reading:
        reading.begin_at(spill.rows_written(folders.temporary))
        while not finished.wait(poll) and not folders.rows_finished():
            read = spill.rows_written(folders.temporary)
            bad = letter_files.letters_written(folders.temporary)
            reading.reach(read, f"{bad:,} dead letters" if bad else "")
            if read == rows:
                break
    with progress.Progress("writing", rows or read) as writing:
        while not finished.wait(poll):
            writing.reach(folders.rows_finished())


def _judge_rows(data: config.Data, folders: record_folders.Folders) -> None:
    """Keeps the dead letters, says what they are, and fails if there are too many."""
    tallies = letter_files.gather(folders)
    for split, tally in sorted(tallies.items()):
        if tally.dropped:
            print(f"{split}: {tally.dropped:,} of {tally.read:,} rows dropped as configured")
        for name, count in sorted(tally.truncated.items()):
            column = data.columns[name]
            end = "last" if column.on_longer == "keep_last" else "first"
            print(
                f"{split}: {count:,} rows had more than {column.max_items} items in {name}; "
                f"the {end} were kept"
            )
        if tally.rejected:
            print(f"{split}: {tally.rejected:,} of {tally.read:,} rows are dead letters:")
            print("\n".join(f"  {line}" for line in tally.lines()))
    if any(tally.rejected for tally in tallies.values()):
        print(f"see {terminal.shown(folders.dead_letters)}", flush=True)
    letter_files.check_budget(tallies, data, folders.dead_letters)


def _manifest(
    data: config.Data,
    folders: record_folders.Folders,
    found: tuple[manifest.Source, ...],
) -> manifest.Manifest:
    receipts = folders.receipts()
    splits: dict[str, manifest.Split] = {}
    for split in existing(data):
        total = placement.shards_of(data, split)
        shards = tuple(
            receipts.get((split, index)) or _empty_shard(folders, split, index, total)
            for index in range(total)
        )
        splits[split] = manifest.Split(records=sum(s.records for s in shards), shards=shards)
    written, read = sum(s.records for s in splits.values()), spill.rows_written(folders.temporary)
    # Rows whose key is there already are left out between the two.
    assert written == read or (data.key and written < read), f"{read} were read, {written} written"
    return manifest.Manifest(
        fingerprint=fingerprint.fingerprint(data, found),
        settings=config.digest(builds.deciding(data)),
        columns=data.columns,
        label=data.label,
        block_records=data.block_records,
        sources=found,
        splits=splits,
        statistics=folders.statistics(),
    )


def _empty_shard(
    folders: record_folders.Folders, split: str, index: int, total: int
) -> manifest.Shard:
    """Writes the file of a shard to which no row was assigned."""
    from preprocessing.shards import merge

    name = folders.shard_name(split, index, total)
    return merge.write_shard(storage.join(folders.build, name), name, [], block_records=1)[0]


def _say_what_is_read(data: config.Data, chunks: list[Chunk], source: Source) -> None:
    for split in sorted(data.inputs):
        counts = [chunk.rows for chunk in chunks if chunk.split == split]
        rows = "" if None in counts else f"{sum(c or 0 for c in counts):,} records of "
        paths = ", ".join(map(terminal.shown, data.inputs[split].values()))
        print(f"reading {rows}{split} from {paths}")
    size = sum(storage.size(file.path) for file in source.files())
    print(f"{size / 1e6:,.1f} MB in all", flush=True)


def _say_up_to_date(found: manifest.Manifest, folder: str) -> None:
    shown = terminal.shown(folder)
    print(f"{shown}: up to date ({_counts(found)}), nothing to do", flush=True)


def _say_what_was_made(result: manifest.Manifest, folder: str, seconds: float) -> None:
    records = sum(split.records for split in result.splits.values())
    print(
        f"{_counts(result)}: {records:,} records in {seconds:.1f} s "
        f"({records / seconds:,.0f}/s), in {terminal.shown(folder)}",
        flush=True,
    )


def _say_what_is_kept(records: str, current: str) -> None:
    """Says what builds besides the current one take, in the words of their manifests."""
    others = [build for build in builds.published(records) if build != current]
    if others:
        size = sum(builds.size(storage.join(records, build)) for build in others)
        print(
            f"{len(others)} other {'build' if len(others) == 1 else 'builds'} of these records "
            f"{'takes' if len(others) == 1 else 'take'} {size / 1e6:,.1f} MB; make clean-records "
            "lists them, and removes those that no run uses",
            flush=True,
        )


def _counts(result: manifest.Manifest) -> str:
    return ", ".join(f"{name} {split.records:,}" for name, split in result.splits.items())
