"""What predictions are asked for: which files, how they are read, and which of their columns count.

A row needs the columns that the model takes, by the rules that records are held to. Its label and
its key are read where they are there; all other columns may be missing.
"""

from __future__ import annotations

import dataclasses
import glob as globbing
import re
from collections.abc import Collection, Mapping, Sequence

from pipeline import config, errors, storage
from pipeline.config import date_rules, splits
from pipeline.records import feature_plan, file_kinds, manifest
from pipeline.source_table import SOURCES
from preprocessing import sources
from preprocessing.schema_inference import detect_kind
from preprocessing.sources import files, json_layout, lakes, partitions
from preprocessing.sources.base import Source
from preprocessing.sources.image_files import PicturesSource, find_folder
from preprocessing.sources.image_folder import ENDINGS

# Rows to predict for come in one part, which must have the name of a split.
SPLIT: splits.SplitName = "test"
_HEAD = 1 << 16
_WILD = re.compile(r"[*?\[]")
_PACKED = ("gz", "zip")


@dataclasses.dataclass(frozen=True)
class Asked:
    """Rows to predict for.

    `data` is what sources and the schema's enforcement are told; the model takes the columns
    `model`. `key` names columns that are there and name a row. `stored` are records, whose numbers
    are not those of raw rows. In columns of `dates` other values draw a
    warning.
    """

    source: Source
    data: config.Data
    model: dict[str, config.Column]
    key: tuple[str, ...]
    dates: date_rules.Unruled
    stored: bool = False

    @property
    def has_label(self) -> bool:
        """Tells if labels may be there."""
        return self.data.label in self.data.columns


def open_files(
    given: str,
    job: config.Config,
    *,
    classes: Sequence[str] | None,
    budget: float | None = None,
    part: Collection[str] | None = None,
) -> Asked:
    """Returns the rows of a file, of the files of a pattern, or of those in a folder.

    `classes` are the names of what images may show, `budget` replaces `data.error_budget`. For a
    `part` of the model, rows need its columns, by which they are named then, too. Raises
    `UsageError` or `DataError` for files that are not there, or that the model cannot be asked.
    """
    paths = _find_files(given, job)
    named_so = len(paths) > 1 and all(path.lower().endswith(ENDINGS) for path in paths)
    # Each of several pictures is checked by itself, also the first.
    kind = "pictures" if named_so else _detect_kind(paths[0], job)
    folders = {find_folder(path) for path in paths}
    named = classes is not None and folders <= set(classes)
    return _build_request(paths, kind, job, budget=budget, pictures_named=named, part=part)


def open_split(
    job: config.Config,
    records_path: str,
    budget: float | None = None,
    *,
    part: Collection[str] | None = None,
) -> Asked:
    """Returns the rows of the test split, as they are stored, for the model or a `part` of it.
    Raises `UsageError` without one."""
    contents = manifest.read(records_path)
    manifest.check_schema(contents, job.data, records_path)
    shards = contents.splits["test"].shards if "test" in contents.splits else ()
    paths = [storage.join(records_path, shard.path) for shard in shards if shard.records]
    if not paths:
        raise errors.UsageError(
            f"{records_path!r}: has no test split; name raw rows or images with --input="
        )
    asked = _build_request(paths, "tfrecord", job, budget=budget, part=part)
    if not job.data.provenance:
        return dataclasses.replace(asked, stored=True)
    columns = {**asked.data.columns, **config.PROVENANCE}
    data = asked.data.model_copy(update={"columns": columns})
    return dataclasses.replace(
        asked, source=_choose_source(data, "tfrecord"), data=data, stored=True
    )


def _build_request(
    paths: Sequence[str],
    kind: str,
    job: config.Config,
    *,
    budget: float | None,
    pictures_named: bool = False,
    part: Collection[str] | None = None,
) -> Asked:
    if kind == "idx" and len(paths) > 1:
        raise errors.UsageError(f"--input: must be one IDX file of images, these are {len(paths)}")
    inputs = {f"{n:06d}": globbing.escape(path) for n, path in enumerate(paths)}
    if kind == "idx":
        inputs = {"images": paths[0]}
    data = job.data.model_copy(
        update={
            "source": kind,
            "inputs": {SPLIT: inputs},
            "csv": _choose_dialect(paths[0], job.data),
            "key": (),
            "split": splits.HashSplit(),
            "error_budget": job.data.error_budget if budget is None else budget,
            "provenance": False,
        }
    )
    model = {n: c for n, c in list_model_columns(job).items() if part is None or n in part}
    there = _list_names(data, kind, pictures_named)
    named = dict.fromkeys(
        [*job.data.key, *(_list_naming_columns(model) if part is not None else ())]
    )
    key = tuple(name for name in named if not data.columns[name].sensitive)
    columns = _choose_columns(data, key, model, there=there)
    data = data.model_copy(update={"columns": columns})
    key = tuple(name for name in key if name in columns)
    dates = date_rules.find_unruled(job.features, model)
    return Asked(_choose_source(data, kind), data, model, key, dates)


def _list_naming_columns(columns: Mapping[str, config.Column]) -> list[str]:
    """Returns the columns of single values, which tell what a row is of."""
    return [n for n, c in columns.items() if not (c.list or c.shape or c.is_image)]


def _choose_columns(
    data: config.Data,
    key: Sequence[str],
    model: dict[str, config.Column],
    *,
    there: Sequence[str] | None,
) -> dict[str, config.Column]:
    """Returns the columns to read: what the model takes, and the label and key where they are."""
    by_place = data.source == "csv" and not data.csv.header
    names = there if by_place and there is not None else list(data.columns)
    found = {}
    for name in names:
        if name in model:
            found[name] = model[name]
        elif there is not None and name not in there:
            continue
        elif name in data.every_label or name in key:
            found[name] = data.columns[name].model_copy(update={"missing": "allow"})
        elif by_place:
            found[name] = config.Column(type="string", missing="allow")
    return found


def list_model_columns(job: config.Config) -> dict[str, config.Column]:
    """Returns what the model takes, by the rules that rows to predict for are held to."""
    return {name: _make_strict(c) for name, c in feature_plan.select_serving_columns(job).items()}


def _make_strict(column: config.Column) -> config.Column:
    """A row that is dropped on purpose before training has no prediction either, but says why."""
    if column.missing != "drop":
        return column
    return column.model_copy(update={"missing": "reject"})


def _list_names(data: config.Data, kind: str, pictures_named: bool) -> list[str] | None:
    """Returns the columns that all files have, `None` if that is not known before they are read."""
    if kind == "pictures":
        return [data.label] if pictures_named else []
    if kind == "idx":
        return []
    source = sources.choose(data)
    said = [source.read_names(file) for file in source.files()]
    known = [names for names in said if names is not None]
    if not known:
        return None
    return [name for name in known[0] if all(name in names for names in known)]


def _choose_source(data: config.Data, kind: str) -> Source:
    return PicturesSource(data) if kind == "pictures" else sources.choose(data)


def _find_files(given: str, job: config.Config) -> list[str]:
    if _WILD.search(given) and not storage.exists(given):
        found = storage.glob(given)
        if not found:
            raise errors.UsageError(f"--input {given!r}: no file fits this pattern")
        return found
    if storage.listdir(given):
        return _list_folder(given, job)
    if not storage.exists(given):
        raise errors.UsageError(f"--input {given!r}: no such file or folder")
    return [given]


def _list_folder(folder: str, job: config.Config) -> list[str]:
    """Returns the images below a folder if the model takes one, else the files in it."""
    if _takes_image(job):
        every = storage.glob(storage.join(globbing.escape(folder), "**"))
        shown = [path for path in every if "/." not in path[len(folder.rstrip("/")) :]]
        pictures = [path for path in shown if path.lower().endswith(ENDINGS)]
        if pictures:
            return pictures
    lakes.refuse([folder])
    folder, paths = partitions.list_below(folder)
    paths = [path for path in paths if not storage.listdir(path)]
    if not paths:
        raise errors.DataError(f"{folder!r}: holds no files to predict for")
    endings = [_get_ending(path) for path in paths]
    if len(different := sorted(set(endings))) > 1:
        pattern = storage.join(folder, f"*{files.choose_ending(endings)}")
        raise errors.DataError(
            f"{folder!r}: holds files that end in {', '.join(map(repr, different))}; give a "
            f"pattern of those to read, such as {pattern!r}"
        )
    return paths


def _get_ending(path: str) -> str:
    """Returns `.csv` or `.csv.gz` of a path, or an empty string."""
    name, dot, ending = path.rpartition("/")[2].lower().rpartition(".")
    return _get_ending(name) + dot + ending if ending in _PACKED else dot + ending if dot else ""


def _takes_image(job: config.Config) -> bool:
    return any(column.is_image for column in feature_plan.select_serving_columns(job).values())


def _detect_kind(path: str, job: config.Config) -> str:
    """Returns the source that reads a file, by what it begins with."""
    with (
        files.translate_errors(path),
        storage.open_file(path) as raw,
        files.unpack(raw, path) as file,
    ):
        head = file.read(file_kinds.HEAD_BYTES)
    kind = file_kinds.detect(head)
    if kind is not None and kind.family == "rows":
        return detect_kind.detect_kind(path)  # raises for a packed table
    if kind is not None and kind.family == "picture":
        return "pictures"
    if _takes_image(job):
        by_pixels = sorted(file_kinds.ROWS, key=lambda name: not SOURCES[name].pixels)
        *called, last = (SOURCES[name].called for name in by_pixels)
        seen = f"is {kind.what}," if kind else f"begins with {head[:4].hex() or 'nothing'}, is"
        raise errors.DataError(
            f"{path!r}: {seen} neither PNG, JPEG, {', '.join(called)} nor {last}; only these hold "
            "images"
        )
    detect_kind.detect_kind(path)  # raises for what is neither text nor known
    with files.open_unpacked(path) as stream:
        text = stream.read(_HEAD)
    return "jsonl" if json_layout.is_lines(text, path, one_row=True) else "csv"


def _choose_dialect(path: str, data: config.Data) -> config.Csv:
    if data.source == "csv":
        return data.csv
    return config.Csv(delimiter="\t" if _get_ending(path).startswith(".tsv") else ",")
