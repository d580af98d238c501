"""The whole of preprocessing: from a config to published records.

Order matters: a build is written in a folder of its own, its manifest when all else is there, and
then the pointer that makes it the current one. Whatever is killed when, a build is complete or is
not there, and earlier ones are as they were.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pipeline import config, errors, storage
from pipeline.config import date_rules
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing import sources
from preprocessing.build import (
    background_hash,
    fingerprint,
    finished,
    in_place,
    reporting,
    resume,
    undated_sample,
)
from preprocessing.build.attempt import Attempt, BuildOptions
from preprocessing.dead_letters import corrections
from preprocessing.runners import dataflow_job
from preprocessing.shards import record_folders
from preprocessing.sources import together
from preprocessing.sources.base import SIZES, Sizes, Source
from preprocessing.sources.in_place import InPlaceSource


def run(
    job: config.Config,
    storage_root: str,
    *,
    num_workers: int = 1,
    pipeline_options: Sequence[str] = (),
    force: bool = False,
    elsewhere: dataflow_job.Follower | None = None,
    for_run: run_folder.RunFolder | None = None,
    sizes: Sizes = SIZES,
) -> manifest.Manifest:
    """Makes the records of `job` below `storage_root` unless they are there already, and then too
    with `force`. Waits for another process that makes them. Files are read by `sizes`. `elsewhere`
    follows a job on Dataflow.
    The build is the current one then, and the one that `for_run` is pinned to.

    Raises `DataError` for bad raw data, `UsageError` for a place that cannot be written to,
    `RetryableError` for a full disk; after any of them, finished builds are as they were.
    """
    records = run_folder.records_folder(storage_root, job.name)
    if job.data.in_place and elsewhere is not None:
        raise errors.UsageError(
            "data.in_place: files are read where the command runs; leave CLUSTER=gcp away"
        )
    values = in_place.explain_values(job) if job.data.in_place else ""
    dates = date_rules.find_unruled(job.features, job.data.columns)
    options = BuildOptions(num_workers, tuple(pipeline_options), force, elsewhere, values, dates)
    try:
        storage.makedirs(records)
        source = _choose_source(job.data, records, values, sizes=sizes)
        base = fingerprint.compute_base(job.data, source.files())
        with record_folders.hold_lock(records, base):
            build, made = _build(job.data, source, records, base=base, options=options)
            if for_run is not None:
                builds.pin(for_run, job.name, build)
            builds.make_current(records, build, job.data)
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot write records in {records!r}") from None
    reporting.print_what_is_kept(records, build)
    return made


def _choose_source(data: config.Data, records: str, values: str, *, sizes: Sizes) -> Source:
    if data.in_place:
        found: Source = InPlaceSource(data, values)
        found.sizes = sizes
    else:
        found = corrections.wrap(sources.choose(data, sizes), records)
    return together.wrap(found)


def _build(
    data: config.Data, source: Source, records: str, *, base: str, options: BuildOptions
) -> tuple[str, manifest.Manifest]:
    """Returns the name and the manifest of a finished build of `data`. The lock must be held."""
    started = time.monotonic()
    record_folders.adopt(records)
    taken = record_folders.list_builds(records, base)
    killed = record_folders.find_leftovers(records, base)
    left = resume.inspect_leftovers(
        killed, data, source, pipeline_options=options.pipeline_options, force=options.force
    )
    resume.print_why_not(left)
    others = record_folders.list_left_by_others(records, base)
    record_folders.sweep(records, base, left.folders)
    resume.print_what_was_removed(others, records)
    files = source.files()
    # Files that are used in place each have a checksum in the manifest.
    with background_hash.hash_in_background([] if data.in_place else files) as hashes:
        # What a transform of the user's own will read is not known without files.
        if files and not options.force:
            if data.in_place:
                values = bool(options.values)
                up_to_date = finished.find_scanned(files, records, base, values=values)
            else:
                up_to_date = finished.find_up_to_date(data, records, base, hashes=hashes)
            if up_to_date is not None:
                build, result = up_to_date
                reporting.check_budget_again(data, storage.join(records, build))
                reporting.print_up_to_date(result, storage.join(records, build))
                reporting.print_label_warnings(data, result)
                resume.discard(left)
                _print_undated(data, storage.join(records, build), result, dates=options.dates)
                return build, result
        attempt = Attempt(data, source, records, base, taken, left, hashes, options)
        build, result = attempt.make()
    seconds = time.monotonic() - started
    reporting.print_what_was_made(result, storage.join(records, build), seconds)
    reporting.print_warnings(data, result)
    if data.in_place:
        _print_undated(data, storage.join(records, build), result, dates=options.dates)
    return build, result


def _print_undated(
    data: config.Data, folder: str, found: manifest.Manifest, *, dates: date_rules.Unruled
) -> None:
    try:
        lines = list(undated_sample.find_warnings(data, folder, found, dates=dates))
    except errors.DataError as damaged:
        # The trainer may leave a damaged shard out.
        lines = [str(damaged)]
    for line in lines:
        print(f"warning: {line}", flush=True)
