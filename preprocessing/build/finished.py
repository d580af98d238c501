"""Looks for builds that are complete already, and hold what a new one would."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import config, errors, storage
from pipeline.records import manifest, shard_check, verified
from preprocessing.build import fingerprint
from preprocessing.build.background_hash import Hashes
from preprocessing.shards import record_folders
from preprocessing.sources import in_place
from preprocessing.sources.base import RawFile


def find_up_to_date(
    data: config.Data, records: str, base: str, *, hashes: Hashes
) -> tuple[str, manifest.Manifest] | None:
    """Returns the newest finished build of raw files as they are now, and its manifest."""
    return next(
        (
            (build, found)
            for build, found in _list_finished(records, base)
            if found.fingerprint == fingerprint.compute_fingerprint(data, hashes.result())
        ),
        None,
    )


def find_scanned(
    files: list[RawFile], records: str, base: str, *, values: bool
) -> tuple[str, manifest.Manifest] | None:
    """Returns the newest finished build of `files` that are used in place and are what they were,
    and its manifest; with statistics if `values` are needed. Reads what was written to since."""
    wanted = sorted((in_place.find_split(file), file.path) for file in files)
    for build, found in _list_published(records, base):
        folder = storage.join(records, build)
        if _list_files(found) != wanted or (values and not found.statistics):
            continue
        known = verified.open_verified(folder, found.sha256)
        damage = next(shard_check.damages(folder, found, contents=True, known=known), None)
        if damage is None:
            known.save()
            return build, found
        print(f"{damage}; reading all files again", flush=True)
    return None


def _list_files(found: manifest.Manifest) -> list[tuple[str, str]]:
    """Returns split and path of each shard, also of those that a repair has left out."""
    listed = [(name, shard.path) for name, split in found.splits.items() for shard in split.shards]
    return sorted([*listed, *((one.split, one.path) for one in found.left_out or ())])


def find_equal(records: str, base: str, made: manifest.Manifest) -> str | None:
    """Returns a finished build with the same records: of inputs without a hash, they may be
    what they were."""
    return next(
        (build for build, found in _list_finished(records, base) if found.sha256 == made.sha256),
        None,
    )


def _list_finished(records: str, base: str) -> Iterator[tuple[str, manifest.Manifest]]:
    """Yields the builds of a base whose shards are all there with the right size, newest first."""
    for build, found in _list_published(records, base):
        folder = storage.join(records, build)
        damage = next(shard_check.damages(folder, found, contents=False), None)
        if damage is None:
            yield build, found
        else:
            print(f"{damage}; making the records again", flush=True)


def _list_published(records: str, base: str) -> Iterator[tuple[str, manifest.Manifest]]:
    """Yields the builds of a base that have a manifest, newest first."""
    for build in record_folders.list_builds(records, base):
        try:
            yield build, manifest.read(storage.join(records, build))
        except errors.DataError:
            continue
