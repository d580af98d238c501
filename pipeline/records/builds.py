"""Builds of records: which one is current, and which one a run is pinned to.

    records/<name>/current.json           names the build that was made, or asked for, last, and the
                                          inputs of the config that it was asked for
    records/<name>/<build>/manifest.json  and its shards; a build never changes once this is there
    runs/<run>/records.json               names the build that the run trains on

Records of earlier versions have no current.json. Their manifest lies in records/<name>/ itself,
which then counts as a build without a name.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import Any

from pipeline import config, errors, storage
from pipeline.records import manifest
from pipeline.runs import other_model, run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json

CURRENT = "current.json"
PIN = "records.json"
# Builds of the same settings and inputs are numbered from the second one on.
_NAME = re.compile(r"(?P<base>[0-9a-f]{12})(-(?P<number>[1-9][0-9]*))?")
# Where raw files come from and lie; their contents are hashed, and count.
_NOT_IN_RECORDS = {"inputs", "download", "generate", "error_budget", *config.Data.OF_READING}


@dataclasses.dataclass(frozen=True)
class Pin:
    """The build that a run trains on, of the records called `records`.

    `before` is the one its checkpoint was trained on, until the chief has settled that the run
    continues with `build`.
    """

    records: str
    build: str
    before: str | None = None


def base_of(build: str) -> str | None:
    """Returns what names of builds with the same settings and inputs share; `None` for others."""
    match = _NAME.fullmatch(build)
    return match["base"] if match else None


def number_of(build: str) -> int:
    """Returns which of the builds of its base this is, from 1."""
    match = _NAME.fullmatch(build)
    return int(match["number"] or 1) if match else 0


def find_deciding_settings(data: config.Data) -> dict[str, Any]:
    """Returns the settings that decide the bytes of records. A key that a later version adds does
    not rename older records."""
    found = data.model_dump(mode="json", exclude=_NOT_IN_RECORDS, exclude_defaults=True)
    for name in config.Sample.OF_TRAINING:
        found.get("sample", {}).pop(name, None)
    return found


def find_current(records: str) -> str:
    """Returns the folder of the current build below `records`; `records` itself if it names none,
    because it is a build or was made by an earlier version.

    Raises `DataError` for a pointer that cannot be used.
    """
    found = _read_pointer(records)
    return storage.join(records, found["build"]) if found else records


def find_config_build(storage_root: str, job: config.Config, *, given: str) -> str:
    """Returns the folder of the current build of a config, whose name or path is `given`.

    Raises `UsageError` if that was made for another config of that name: one of other inputs,
    label or columns.
    """
    refuse_other_inputs(storage_root, job, given=given)
    folder = find_current(run_folder.records_folder(storage_root, job.name))
    if storage.exists(manifest.path_in(folder)):
        found = manifest.read(folder)
        why = other_model.compare_columns(job.data.columns, found.columns)
        if found.label != job.data.label:
            why = f"its label is {found.label!r}, not {job.data.label!r}"
        if why:
            raise _build_other_config_error(folder, job.name, given, why=why)
    return folder


def refuse_other_inputs(storage_root: str, job: config.Config, *, given: str) -> None:
    """Raises `UsageError` if the current build of the records that are called like a config, whose
    name or path is `given`, was made from other inputs."""
    if why := compare_inputs(storage_root, job):
        folder = find_current(run_folder.records_folder(storage_root, job.name))
        raise _build_other_config_error(folder, job.name, given, why=why)


def compare_inputs(storage_root: str, job: config.Config) -> str:
    """Returns in words which input of a config the current build of its name was not made from;
    empty for none, and if an earlier version made it."""
    pointer = _read_pointer(run_folder.records_folder(storage_root, job.name))
    if pointer is None or pointer["inputs"] is None:
        return ""
    return other_model.compare_inputs(other_model.list_inputs(job.data), pointer["inputs"])


def warn_of_other_inputs(storage_root: str, job: config.Config, folder: str) -> None:
    """Prints a warning if a build that a run is to train on is the current one, and was made from
    other inputs than those of its config. No refusal: the raw data may lie elsewhere on the machine
    that made the records."""
    why = compare_inputs(storage_root, job)
    if why and folder == find_current(run_folder.records_folder(storage_root, job.name)):
        print(
            f"warning: {folder!r} may be of another config called {job.name!r}: {why}. If so, run "
            "make preprocess, and give one another name: or STORAGE=",
            flush=True,
        )


def _build_other_config_error(folder: str, name: str, given: str, *, why: str) -> errors.UsageError:
    return errors.UsageError(
        f"config {given!r}: the current records called {name!r}, {folder!r}, are of another "
        f"config: {why}. Make its own with make preprocess CONFIG={shlex.quote(given)}. Another "
        "name: or STORAGE= keeps two configs apart"
    )


def _read_pointer(records: str) -> dict[str, Any] | None:
    path = storage.join(records, CURRENT)
    try:
        found = strict_json.loads(storage.read_text(path))
        build, inputs = found["build"], found.get("inputs")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        build = inputs = None
    named = isinstance(build, str) and base_of(build) is not None
    if not named or not isinstance(inputs, dict | None):
        raise errors.DataError(f"{path!r}: does not name a build. Run make preprocess.")
    return {"build": build, "inputs": inputs}


def make_current(records: str, build: str, data: config.Data | None = None) -> None:
    """Makes `build` the one that is found by the name of the records, and notes the inputs of the
    config for which, if these are known."""
    wanted = {"build": build, "inputs": other_model.list_inputs(data) if data else None}
    try:
        known = _read_pointer(records)
    except errors.DataError:
        known = None
    if known != wanted:
        text = strict_json.dumps({k: v for k, v in wanted.items() if v is not None}) + "\n"
        storage.write_text(storage.join(records, CURRENT), text)


def find_current_name(records: str) -> str:
    """Returns the name of the current build, empty for none or a pointer that cannot be used."""
    try:
        return find_current(records)[len(records) :].strip("/")
    except errors.DataError:
        return ""


def list_published(records: str) -> list[str]:
    """Returns the names of all finished builds, those of one base in the order they were made."""
    names = [name for name in storage.listdir(records) if base_of(name)]
    names.sort(key=lambda name: (base_of(name), number_of(name)))
    return [name for name in names if is_published(records, name)]


def is_published(records: str, build: str) -> bool:
    """True if a build is finished."""
    return storage.exists(manifest.path_in(storage.join(records, build)))


def size(folder: str) -> int:
    """Returns how many bytes the shards that are in a build have by its manifest; 0 if it has
    none."""
    try:
        splits = manifest.read(folder).splits.values()
    except errors.DataError:
        return 0
    shards = (shard for split in splits for shard in split.shards)
    return sum(shard.bytes for shard in shards if not shard.is_in_place)


def find_unnamed(records: str) -> str | None:
    """Returns the name of the folder in which the shards of a build without a name lie, if there
    is one below `records`, from an earlier version."""
    try:
        found = manifest.read(records)
    except errors.DataError:
        return None
    folders = {s.path.partition("/")[0] for split in found.splits.values() for s in split.shards}
    build = folders.pop() if len(folders) == 1 else ""
    there = base_of(build) is not None and storage.exists(storage.join(records, build))
    return build if there else None


def read_pin(run: RunFolder) -> Pin | None:
    """Returns the pin of a run, `None` before it has one. Raises `DataError` for another file."""
    content = run.read(PIN)
    if content is None:
        return None
    try:
        found = Pin(**content)
        storage.child(run.path, found.records)  # no path that leads elsewhere
    except (TypeError, errors.UsageError):
        found = None
    if found is None or not all(b == "" or base_of(b) for b in (found.build, found.before or "")):
        path = storage.join(run.path, PIN)
        raise errors.DataError(f"{path!r}: does not name a build; remove it and run again")
    return found


def pin(run: RunFolder, records: str, build: str) -> None:
    """Notes that a run is to train on a build of the records called `records`.

    The one it was pinned to is remembered until `forget_previous` or `restore`, so that it stays.
    """
    earlier = read_pin(run)
    if earlier is not None and (earlier.records, earlier.build) == (records, build):
        return
    before = None
    if earlier is not None and earlier.records == records:
        before = earlier.build if earlier.before is None else earlier.before
    _write(run, Pin(records, build, None if before == build else before))


def pin_to(storage_root: str, run: RunFolder, name: str, *, folder: str) -> None:
    """Pins a run to the build in a folder that `find_wanted` returns for records called `name`."""
    pin(run, name, folder[len(run_folder.records_folder(storage_root, name)) :].strip("/"))


def forget_previous(run: RunFolder) -> None:
    """Forgets the build before: the run continues with the one it is pinned to."""
    found = read_pin(run)
    if found is not None and found.before is not None:
        _write(run, dataclasses.replace(found, before=None))


def restore(run: RunFolder) -> None:
    """Pins the run to the build before again: it may not continue with another."""
    found = read_pin(run)
    if found is not None and found.before is not None:
        _write(run, Pin(found.records, found.before))


def _write(run: RunFolder, found: Pin) -> None:
    run.write(PIN, dataclasses.asdict(found))


def find_run_build(storage_root: str, run: RunFolder, name: str) -> str:
    """Returns the folder of the build that a run is pinned to.

    If that was removed, of the newest one with the same settings and inputs; of a run without a
    pin, which an earlier version has started, of the records called `name`.
    """
    found = read_pin(run)
    if found is None:
        return _find_unpinned_build(run, run_folder.records_folder(storage_root, name))
    records = run_folder.records_folder(storage_root, found.records)
    if is_published(records, found.build):
        return storage.join(records, found.build) if found.build else records
    base = base_of(found.build)
    alike = [build for build in list_published(records) if base_of(build) == base]
    return storage.join(records, alike[-1] if alike else found.build)


def _find_unpinned_build(run: RunFolder, records: str) -> str:
    return records if has_trained_on_unnamed(run, records) else find_current(records)


def has_trained_on_unnamed(run: RunFolder, records: str) -> bool:
    """True if an earlier version has started the run, on the build without a name."""
    made = (run.read("run.json") or {}).get("manifest")
    try:
        return made is not None and manifest.read(records).sha256 == made
    except errors.DataError:
        return False


def find_wanted(storage_root: str, job: config.Config, run: RunFolder, *, moves: bool) -> str:
    """Returns the folder of the build that `job` asks for, where no process preprocesses for it.

    That is the one the run is pinned to, unless it `moves` on to other records; then the current
    build, if it has the settings of `job`; then the newest that has them. If none has, the current
    one: the caller compares its schema.
    """
    records = run_folder.records_folder(storage_root, job.name)
    settings = config.digest(find_deciding_settings(job.data))
    candidates: list[str] = []
    found = read_pin(run)
    if not moves and found is not None and found.records == job.name:
        candidates.append(find_run_build(storage_root, run, job.name))
    candidates.append(find_current(records))
    made = [storage.join(records, build) for build in list_published(records)]
    candidates += sorted(
        made, key=lambda it: storage.get_modified_time(manifest.path_in(it)), reverse=True
    )
    for folder in candidates:
        try:
            if manifest.read(folder).settings in (settings, None):
                return folder
        except errors.DataError:
            continue
    return find_current(records)
