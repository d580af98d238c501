"""Builds of `data.in_place`: a manifest that names the user's own files."""

from __future__ import annotations

from pipeline import config, errors
from pipeline.config import in_place
from pipeline.records import builds, feature_plan, manifest, verified
from preprocessing.rows.split import list_splits
from preprocessing.shards import record_folders, scanned


def explain_values(job: config.Config) -> str:
    """Returns why a scan must read values too, empty if it need not: a rule that only a look at
    each can check, or a feature that goes by statistics."""
    if job.data.in_place == in_place.VALUES:
        return "data.in_place: values"
    rule = in_place.rule(job.data)
    if rule is not None:
        return f"data.{rule} is a rule for values"
    nothing = manifest.Manifest(
        fingerprint="",
        columns=job.data.columns,
        label=job.data.label,
        block_records=job.data.block_records,
        sources=(),
        splits={},
    )
    try:
        feature_plan.plan(job, nothing)
    except errors.UsageError as error:
        return str(error).partition(", ")[0]
    return ""


def build_manifest(
    data: config.Data, folders: record_folders.Folders, fingerprint: str, *, values: bool
) -> manifest.Manifest:
    """Returns the manifest of the files that were scanned, and notes their versions: unless they
    change, they need not be read again. Raises `DataError` for files of two splits
    with the same content."""
    found = scanned.read(folders.temporary)
    scanned.check_apart(found)
    splits: dict[str, manifest.Split] = {}
    for split in list_splits(data):
        shards = tuple(one.shard for one in found.get(split, ()))
        splits[split] = manifest.Split(records=sum(s.records for s in shards), shards=shards)
    result = manifest.Manifest(
        fingerprint=fingerprint,
        settings=config.digest(builds.find_deciding_settings(data)),
        columns=data.columns,
        label=data.label,
        block_records=data.block_records,
        sources=(),
        splits=splits,
        statistics=folders.read_statistics() if values else {},
    )
    known = verified.open_verified(folders.build, result.sha256)
    for one in (one for of_split in found.values() for one in of_split):
        known.add(one.shard.path, one.version, one.shard.crc32c)
    known.save()
    return result
