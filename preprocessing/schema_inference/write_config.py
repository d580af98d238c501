"""Writes a first config from raw data, with what was seen of each column next to it."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping

import yaml

from pipeline import errors, storage
from pipeline.config import config_file, feature_check
from preprocessing import sources
from preprocessing.schema_inference import (
    detect_format,
    heuristics,
    image_config,
    leaks,
    magic_bytes,
    profile,
    suggest_lists,
    suggest_model,
)
from preprocessing.schema_inference.profile import Found, Survey
from preprocessing.schema_inference.raw_format import Guess
from preprocessing.schema_inference.yaml_lines import flow, scalar
from preprocessing.sources import csv_numbers

# Shares of the rows that are held out, twice; of few rows more, so that some are.
_SHARE, _SHARE_OF_FEW, _MANY = 0.1, 0.2, 200
# Columns from which on each number is one input only.
_WIDE = 100
# Sources in which a list may be one text.
_LISTS_AS_TEXT = ("avro", "csv", "orc", "parquet")
# Columns that an error names.
_LISTED = 20
_ENDINGS = re.compile(
    r"(\.(csv|tsv|txt|jsonl|ndjson|json|parquet|pq|orc|avro|gz|zip|yaml|yml))+$", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True)
class Proposal:
    """The text of a config, and in words what it was made from, what of that is damaged, and why
    its label is that. `telling` are columns with features that determine the label; `merged` says
    of others how many different numbers they have, and how many as float32."""

    text: str
    seen: str
    damage: str = ""
    label: str = ""
    why: str = ""
    telling: tuple[str, ...] = ()
    merged: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)


def propose(path: str, out: str, label: str = "") -> Proposal:
    """Returns a first config, to be written to `out`, for a file, a pattern or a folder.

    The label is guessed unless it is given. Raises `DataError` for data that no source reads, or
    without rows or columns; `UsageError` for a `label` that is none of these.
    """
    name = name_of(out)
    if (images := _images(path)) and label not in ("", "label"):
        raise errors.UsageError(f"LABEL={label}: images have one label, {'label'!r}")
    if not images:
        guess, found = explore(path, label)
        text = render(guess, found, name, out, label)
        seen = f"{len(found.columns)} columns of {found.rows:,} rows"
        damage, _ = _damage(found, set(found.columns) - set(guess.left_out))
        target, why, _ = choose(guess, found, label)
        columns = {n: c for n, c in found.columns.items() if n not in guess.left_out}
        telling = leaks.find(sources.choose(guess.data()), target, columns)
        made = {n: heuristics.column(n, columns[n], found.rows) for n in telling}
        used = tuple(n for n, column in made.items() if column.steps or column.parts)
        merged = {n: few for n, c in columns.items() if (few := heuristics.merged(c))}
        return Proposal(text, seen, damage, target, why, used, merged)
    lines, seen, damage = images(path, lambda found: scalar(_from(out, found)))
    text = "\n".join([*_head(seen, out, name, path), *lines])
    config_file.validate(yaml.load(text, yaml.CSafeLoader), where=out)
    return Proposal(text + "\n", seen, damage)


def _images(path: str) -> Callable[[str, Callable[[str], str]], tuple[list[str], str, str]] | None:
    """Returns what makes a config for images, if it is these that lie at `path`."""
    if magic_bytes.is_image_folder(path):
        return image_config.of_folder
    return image_config.of_idx if magic_bytes.is_idx(path) else None


def explore(path: str, label: str = "") -> tuple[Guess, Survey]:
    """Finds out how a file, a pattern or a folder is to be read, and reads it. Raises `UsageError`
    for a `label` that is no column, before that.

    It is read again if that shows that other texts than thought stand for no value, or that numbers
    are written otherwise. Raises `DataError` if there are no rows or no columns.
    """
    guess = detect_format.sniff(path)
    _check_label(label, guess, guess.kinds)
    while True:
        found = profile.survey(sources.choose(guess.data()), guess.kinds, guess.separators)
        known = set(guess.data().csv.missing)
        taken = found.columns[label].tokens - found.columns[label].absent if label else set()
        for name, column in found.columns.items():
            # What is a class of the label cannot stand for no value elsewhere.
            if column.absent and not column.absent & taken:
                guess.absent.setdefault(name, set()).update(column.absent - known)
        absent = set().union(*guess.absent.values()) - known
        written = {}
        if guess.source == "csv" and "decimal" not in guess.csv:
            texts = [column.texts for column in found.columns.values()]
            form = csv_numbers.form(texts, guess.data().csv.delimiter)
            written = {key: text for key, text in form.items() if guess.csv.get(key) != text}
        separators = _separators(guess, found, label)
        guess.separators |= separators
        if guess.source != "csv" or not (absent or written):
            if separators:
                continue
            break
        if absent:
            guess.csv["missing"] = [*guess.data().csv.missing, *sorted(absent)]
        guess.csv |= written
    if not found.rows:
        bad = f" but {found.unreadable.total():,} unreadable ones"
        if (first := found.first_unreadable) is not None:
            bad += f"; row {first.row} {first.problem}" if first.row >= 0 else f"; {first.problem}"
        raise errors.DataError(f"{path!r}: no rows{bad if first else ''}")
    by_place = guess.csv.get("header") is False
    for name, column in found.columns.items():
        if why := _unusable(column):
            if by_place and column.values:
                raise errors.DataError(
                    f"{path!r}: {name} {why}, and without a header none can be left out"
                )
            guess.left_out[name] = why
    usable = [c for name, c in found.columns.items() if name not in guess.left_out]
    if not usable:
        raise errors.DataError(f"{path!r}: no column has values")
    if all(column.listed for column in usable):
        raise errors.DataError(f"{path!r}: {detect_format.ONLY_LISTS}")
    return guess, found


def _separators(guess: Guess, found: Survey, label: str) -> dict[str, str]:
    """Returns what separates the items of texts that are lists, by column, where that is new."""
    if guess.source not in _LISTS_AS_TEXT:
        return {}
    others = {n: c for n, c in found.columns.items() if n not in (label, *guess.separators)}
    marks = {name: suggest_lists.separator(column) for name, column in others.items()}
    return {name: mark for name, mark in marks.items() if mark}


def _unusable(column: Found) -> str | None:
    if not column.values:
        return "has no values"
    if column.holes:
        return "holds lists with values missing in them"
    if column.about.least is None and not column.about.not_finite:
        return "cannot be read as numbers or UTF-8 text"
    return None


def name_of(path: str) -> str:
    """Returns the name of a job that reads `path`."""
    last = _ENDINGS.sub("", path.rstrip("/").rpartition("/")[2])
    if not re.search(r"[A-Za-z0-9]", last) and "/" in path:
        last = path.rstrip("/").rpartition("/")[0].rpartition("/")[2]
    plain = re.sub(r"[^a-z0-9._-]+", "-", last.lower()).strip("._-")[:63]
    return plain or "table"


def render(guess: Guess, found: Survey, name: str, path: str, chosen: str = "") -> str:
    """Returns the config to be written to `path`, as YAML with comments. It is valid.

    Raises `UsageError` if the label is `chosen` and no column that can be one.
    """
    columns = {n: c for n, c in found.columns.items() if n not in guess.left_out}
    wide = len(columns) > _WIDE
    made = {n: heuristics.column(n, c, found.rows, wide=wide) for n, c in columns.items()}
    label, why, key = choose(guess, found, chosen)
    for column in guess.absent.keys() & made.keys():
        texts = ", ".join(map(repr, sorted(guess.absent[column])))
        made[column].notes.append(f"{texts}: taken for missing")
    if columns[label].missing:
        made[label].rules["missing"] = "drop"
    _tell_apart({n: c for n, c in made.items() if n not in (label, key)})
    text = "\n".join(
        [
            *_head(f"{found.rows:,} rows", path, name, guess.pattern),
            *_data_section(guess, found, path, label, why, key, made),
            "",
            *suggest_model.lines(
                columns[label],
                {n: c for n, c in made.items() if n not in (label, key)},
                round(found.rows * (1 - 2 * _share(found.rows))),
            ),
        ]
    )
    config_file.validate(yaml.load(text, yaml.CSafeLoader), where=path)
    return text + "\n"


def choose(guess: Guess, found: Survey, chosen: str = "") -> tuple[str, str, str | None]:
    """Returns the label, which is the `chosen` column if there is one, why it is that, and the
    column that names rows, if one does. Raises `UsageError` for a column that can be no label."""
    columns = {n: c for n, c in found.columns.items() if n not in guess.left_out}
    key = heuristics.key(columns, found.rows)
    if not chosen:
        single = {n: c for n, c in columns.items() if not c.listed}
        others = {n: c for n, c in single.items() if n != key} or single
        return *heuristics.label(others, found.rows), key
    _check_label(chosen, guess, columns)
    label = columns[chosen]
    if label.listed:
        raise errors.UsageError(f"LABEL={chosen}: is a list, and a label is one value")
    if label.kind == "string" and heuristics.occurs_once(label):
        raise errors.UsageError(
            f"LABEL={chosen}: {label.count_of_different:,} different texts in {found.rows:,} rows: "
            "most occur once, and no model can learn these; choose a column whose values return, "
            "or numbers"
        )
    return chosen, "chosen by LABEL=", None if chosen == key else key


def _check_label(label: str, guess: Guess, columns: Iterable[str]) -> None:
    names = list(columns)
    if not label or label in names:
        return
    why = guess.left_out.get(label)
    near = errors.nearest(label, names)
    listed = ", ".join(names[:_LISTED])
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    raise errors.UsageError(
        f"LABEL={label}: {f'it {why}' if why else 'no such column'}{near}"
        f"{'' if near else f'; there are {listed}{more}'}"
    )


def _tell_apart(made: dict[str, heuristics.Column]) -> None:
    """Makes no feature of a column that has the name of another one to TensorFlow."""
    known: dict[str, str] = {}
    for name, column in made.items():
        if not (column.steps or column.parts):
            continue
        other = known.setdefault(feature_check.as_argument(name), name)
        if other != name:
            column.steps, column.parts = [], {}
            column.notes.append(f"to TensorFlow called like {other!r}: no feature; rename it")


def _head(seen: str, path: str, name: str, pattern: str) -> list[str]:
    shipped = storage.absolute(path) == str(config_file.SHIPPED / f"{name}.yaml")
    return [
        f"# A first config for {scalar(pattern)}, from {seen}. Look it over:",
        "# rules hold for the rows that were read, so widen them to what can be; label, key and",
        "# features are guesses. What is not known yet when predicting must not be a feature.",
        "#",
        f"#   make train CONFIG={name if shipped else path}",
        f"name: {scalar(name)}",
        "",
    ]


def _data_section(
    guess: Guess,
    found: Survey,
    path: str,
    label: str,
    why: str,
    key: str | None,
    made: dict[str, heuristics.Column],
) -> list[str]:
    lines = ["data:", f"  source: {guess.source}", "  inputs:"]
    lines.append(f"    train: {flow({'files': _from(path, guess.pattern)})}")
    if guess.csv:
        lines.append(f"  csv: {flow(guess.csv)}")
    lines.append("  columns:")
    # Without a header, columns are told by their place.
    listed = found.columns if guess.csv.get("header") is False else made
    for name in listed:
        if name not in made:
            lines.append(f"    {scalar(name)}: {{type: string, missing: allow}}  # no values")
            continue
        column = made[name]
        if name == label:
            heuristics.list_classes(column, found.columns[name])
        lines.append(f"    # {', '.join(column.notes)}")
        lines.append(f"    {scalar(name)}: {flow(column.rules)}")
    left_out = {n: why for n, why in guess.left_out.items() if n not in listed}
    lines += [f"    # left out: {scalar(n)} {why}" for n, why in left_out.items()]
    lines.append(f"  label: {scalar(label)}  # {why}; another: make schema LABEL=")
    if key is not None:
        lines.append(f"  key: {flow([key])}  # no two rows agree in it")
    share = _share(found.rows)
    lines.append(f"  split: {flow({'eval': share, 'test': share})}")
    return lines + _budget(found, set(made))


def _share(rows: int) -> float:
    return _SHARE if rows >= _MANY else _SHARE_OF_FEW


def _budget(found: Survey, names: set[str]) -> list[str]:
    """Returns the budget that would allow the bad rows, as a comment: people decide on it."""
    damage, budget = _damage(found, names)
    return [f"  # error_budget: {budget}  # {damage}"] if damage else []


def _damage(found: Survey, names: set[str]) -> tuple[str, str]:
    """Returns what is wrong with the rows that were read, and the error budget that allows it;
    both are empty if nothing is."""
    refused = {
        name: column.about.refused
        for name, column in found.columns.items()
        if name in names and column.about.refused
    }
    total = found.rows + found.unreadable.total()
    bad = found.unreadable.total() + sum(refused.values())
    if not bad:
        return "", ""
    share = math.ceil(bad / total * 1000) / 1000
    reasons = [f"{n:,} x {why}" for why, n in sorted(found.unreadable.items())]
    reasons += [f"{n:,} x {scalar(name)} encoding" for name, n in refused.items()]
    budget = f"{share:g}" if share < 1 else f"{bad}"
    return f"{bad:,} of {total:,} rows are bad: {'; '.join(reasons)}", budget


def write(path: str, text: str) -> None:
    """Writes a new config. Raises `UsageError` if there is one already."""
    if storage.exists(path):
        raise errors.UsageError(f"{path!r} is there already; name another file with OUT=")
    storage.makedirs(storage.parent(path))
    storage.write_text(path, text)


def _from(config_path: str, pattern: str) -> str:
    """Returns a pattern as the config must have it: relative ones start at the config's folder.

    If the two do not lie in the working folder, which may be moved as a whole, it is absolute.
    """
    folder = storage.parent(storage.absolute(config_path))
    outside = storage.is_remote(config_path) or os.path.relpath(folder).startswith("..")
    if os.path.isabs(pattern) or storage.is_remote(pattern):
        return pattern
    return storage.absolute(pattern) if outside else os.path.relpath(pattern, folder)
