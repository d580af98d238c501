"""One attempt to make the records of a job: here, on Dataflow, or by a job that was left there."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from pipeline import config, storage
from pipeline.config.date_rules import Unruled
from pipeline.records import builds, manifest
from pipeline.source_table import SOURCES
from preprocessing.build import enough, fingerprint, finished, in_place, reporting, resume
from preprocessing.build.background_hash import Hashes
from preprocessing.rows import placement
from preprocessing.rows.split import list_splits
from preprocessing.runners import dataflow_job
from preprocessing.runners.beam_import import import_beam
from preprocessing.shards import record_folders, spill
from preprocessing.sources.base import Chunk, Source


@dataclasses.dataclass(frozen=True)
class BuildOptions:
    """How records are made: `follower` follows a job on Dataflow, `values` is why a scan of files
    that are used in place reads values too, empty if it does not. Columns of `dates` are
    watched for other values."""

    num_workers: int
    pipeline_options: tuple[str, ...]
    force: bool
    follower: dataflow_job.Follower | None
    values: str = ""
    dates: Unruled = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Makes a build of `base` in the folder `records`; `taken` are the names of earlier builds,
    `left` is what killed attempts have left, and `hashes` are those of the raw files."""

    data: config.Data
    source: Source
    records: str
    base: str
    taken: list[str]
    left: resume.Left
    hashes: Hashes
    options: BuildOptions

    def make(self) -> tuple[str, manifest.Manifest]:
        """Returns the name of the build that holds the records, and its manifest."""
        chunks = [c for split in sorted(self.data.inputs) for c in self.source.plan(split)]
        reporting.print_what_is_read(self.data, chunks, self.source)
        job = self._build_dataflow_job()
        submitted = job.read_folders() if job else None
        folders = submitted or record_folders.prepare(self.records, self.base, self.taken)
        with self._clean_up_after(folders, job):
            if job and submitted:
                with reporting.report_progress(folders, None):
                    job.follow()
            else:
                self._run_beam(chunks, folders, job)
            build, result = self._finish(folders)
        if build != folders.build_name:
            record_folders.remove(folders.build)
        return build, result

    @property
    def _needs_cloud(self) -> bool:
        """True if Beam may be asked for Google Cloud, by its flags or by a transform of the
        user's."""
        return bool(self.options.pipeline_options) or self.data.source not in SOURCES

    def _build_dataflow_job(self) -> dataflow_job.DataflowJob | None:
        if self.options.follower is None:
            return None
        made_of = fingerprint.compute_fingerprint(self.data, self.hashes.result())
        return dataflow_job.DataflowJob(
            self.options.follower, self.records, self.base, fingerprint=made_of
        )

    @contextlib.contextmanager
    def _clean_up_after(
        self, folders: record_folders.Folders, job: dataflow_job.DataflowJob | None
    ) -> Iterator[None]:
        """Removes the temporary folder and an unfinished build after the body, unless a job on
        Dataflow still writes there, or the next attempt can use finished pieces."""
        stays = False
        try:
            yield
        except BaseException as error:
            stays = resume.can_be_used(folders.temporary, error)
            raise
        finally:
            if job is None or not job.is_at_work():
                if not stays:
                    record_folders.remove(folders.temporary)
                if not builds.is_published(self.records, folders.build_name):
                    record_folders.abandon(folders.build)

    def _run_beam(
        self,
        chunks: list[Chunk],
        folders: record_folders.Folders,
        job: dataflow_job.DataflowJob | None,
    ) -> None:
        """Reads all chunks and writes the shards; returns when that is done, wherever it is."""
        keeping = resume.begin(self.left, chunks, folders.temporary)
        with self.hashes.note_when_known(lambda found: self._note_fingerprint(found, folders)):
            import_beam(cloud=self._needs_cloud)
            from preprocessing.runners import beam_options

            beam = beam_options.build(self.options.pipeline_options, self.options.num_workers)
            beam_options.check_complete(beam)
            local = beam_options.is_local(beam)
            workers = f", workers: {beam_options.count_workers(beam)}" if local else ""
            print(f"running on Beam's {beam_options.find_runner_name(beam)}{workers}", flush=True)
            how = {
                "runner": beam_options.choose_runner(beam),
                "options": beam,
                "keeping": keeping,
            }
            with beam_options.silence_tracebacks(beam):
                if self.data.in_place:
                    self._scan(chunks, folders, how)
                else:
                    self._make(chunks, folders, how, job=job)

    def _make(
        self,
        chunks: list[Chunk],
        folders: record_folders.Folders,
        how: dict[str, Any],
        *,
        job: dataflow_job.DataflowJob | None,
    ) -> None:
        from preprocessing.build import beam_pipeline
        from preprocessing.runners import portable

        counts = [chunk.rows for chunk in chunks]
        rows = None if None in counts else sum(count or 0 for count in counts)
        follow = functools.partial(job.note_submission, folders) if job else None
        if portable.must_follow(how["options"]):
            portable.check(how["options"])
            pool = portable.find_local_pool(how["options"])
            follow = functools.partial(portable.follow, folders.temporary, pool=pool)
        with reporting.report_progress(folders, rows), dataflow_job.translate_errors(job):
            how |= {"follow": follow, "dates": self.options.dates}
            beam_pipeline.run(chunks, self.source, self.data, folders=folders, **how)

    def _scan(
        self, chunks: list[Chunk], folders: record_folders.Folders, how: dict[str, Any]
    ) -> None:
        from preprocessing.build import scan_pipeline

        size = sum(one.details.bytes for chunk in chunks for one in chunk.details)
        if self.options.values:
            print(f"values are read too, which takes longer: {self.options.values}", flush=True)
        with reporting.report_scan(folders, size):
            values = bool(self.options.values)
            scan_pipeline.run(chunks, self.source, folders, values=values, **how)

    def _note_fingerprint(
        self, found: tuple[manifest.SourceFile, ...], folders: record_folders.Folders
    ) -> None:
        made_of = fingerprint.compute_fingerprint(self.data, found)
        resume.note_fingerprint(self.left, folders.temporary, made_of)

    def _finish(self, folders: record_folders.Folders) -> tuple[str, manifest.Manifest]:
        """Checks what was made, and writes its manifest, unless an earlier build is equal."""
        result = self._build_manifest(folders)
        resume.check(self.left, result.fingerprint, folders.temporary)
        enough.check(self.data, result)
        same = None if self.options.force else finished.find_equal(self.records, self.base, result)
        if same is None:
            manifest.write(folders.build, result, new=True)
        return same or folders.build_name, result

    def _build_manifest(self, folders: record_folders.Folders) -> manifest.Manifest:
        found = self.hashes.result()
        if self.data.in_place:
            made_of = fingerprint.compute_fingerprint(self.data, found)
            values = bool(self.options.values)
            return in_place.build_manifest(self.data, folders, made_of, values=values)
        sampled = reporting.check_dead_letters(self.data, folders, dates=self.options.dates)
        return _build_manifest(self.data, folders, found, sampled=sampled)


def _build_manifest(
    data: config.Data,
    folders: record_folders.Folders,
    found: tuple[manifest.SourceFile, ...],
    *,
    sampled: manifest.Sampled | None,
) -> manifest.Manifest:
    receipts = folders.read_receipts()
    splits: dict[str, manifest.Split] = {}
    for split in list_splits(data):
        total = placement.count_shards(data, split)
        shards = tuple(
            receipts.get((split, index)) or _write_empty_shard(folders, split, index, total=total)
            for index in range(total)
        )
        splits[split] = manifest.Split(records=sum(s.records for s in shards), shards=shards)
    written, read = (
        sum(s.records for s in splits.values()),
        spill.count_rows_written(folders.temporary),
    )
    # Rows whose key is there already are left out between the two.
    assert written == read or (data.key and written < read), f"{read} were read, {written} written"
    return manifest.Manifest(
        fingerprint=fingerprint.compute_fingerprint(data, found),
        settings=config.digest(builds.find_deciding_settings(data)),
        columns=data.columns,
        label=data.label,
        key=data.key or None,
        block_records=data.block_records,
        sources=found,
        splits=splits,
        statistics=folders.read_statistics(),
        sampled=sampled,
    )


def _write_empty_shard(
    folders: record_folders.Folders, split: str, index: int, *, total: int
) -> manifest.Shard:
    """Writes the file of a shard to which no row was assigned."""
    from preprocessing.shards import merge

    name = folders.name_shard(split, index, total)
    return merge.write_shard(storage.join(folders.build, name), name, [], block_records=1)[0]
