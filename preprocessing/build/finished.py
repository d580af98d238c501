"""Looks for builds that are complete already, and hold what a new one would."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import config, errors, storage
from pipeline.records import manifest
from preprocessing.build import fingerprint
from preprocessing.build.background_hash import Hashes
from preprocessing.shards import record_folders


def up_to_date(
    data: config.Data, records: str, base: str, *, hashes: Hashes
) -> tuple[str, manifest.Manifest] | None:
    """Returns the newest finished build of raw files as they are now, and its manifest."""
    return next(
        (
            (build, found)
            for build, found in _finished(records, base)
            if found.fingerprint == fingerprint.fingerprint(data, hashes.result())
        ),
        None,
    )


def equal(records: str, base: str, made: manifest.Manifest) -> str | None:
    """Returns a finished build with the same records: of inputs without a hash, they may be
    what they were."""
    return next(
        (build for build, found in _finished(records, base) if found.sha256 == made.sha256), None
    )


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
