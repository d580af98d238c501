"""Writes a first config from raw data, with what was seen of each column next to it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence

import yaml

from pipeline import errors, storage
from pipeline.config import config_file, feature_check
from pipeline.source_table import SOURCES
from preprocessing import sources
from preprocessing.schema_inference import (
    damage,
    detect_format,
    detect_kind,
    file_columns,
    heuristics,
    image_config,
    leaks,
    profile,
    remarks,
    suggest_dates,
    suggest_label,
    suggest_lists,
    suggest_model,
    traits,
)
from preprocessing.schema_inference.profile import Survey
from preprocessing.schema_inference.raw_format import Guess
from preprocessing.schema_inference.yaml_lines import format_flow, format_scalar
from preprocessing.sources import csv_numbers
from preprocessing.sources.base import MissingColumn

# Shares of the rows that are held out, twice; of few rows more, so that some are.
_SHARE, _SHARE_OF_FEW, _MANY = 0.1, 0.2, 200
# Columns from which on each number is one input only.
_WIDE = 100
_OF_DATA = "|".join(ending for kind in SOURCES.values() for ending in kind.endings)
_ENDINGS = re.compile(rf"(\.({_OF_DATA}|txt|gz|zip|yaml|yml))+$", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Proposal:
    """The text of a config, and in words what it was made from, what of that is damaged and how to
    fix it, and why its label is that. `telling` are columns with features that determine a label,
    and how; `remarks` are what else a person should know before training, a line each. `nothing`
    says why there is nothing to train on, if no column makes a feature."""

    text: str
    seen: str
    damage: str = ""
    fix: str = "fix the data"
    label: str = ""
    why: str = ""
    telling: Mapping[str, str] = dataclasses.field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    nothing: str = ""


def propose(path: str, out: str, label: str = "", *, has_header: bool | None = None) -> Proposal:
    """Returns a first config, to be written to `out`, for a file, a pattern or a folder.

    The label, and whether CSV `has_header`, is guessed unless it is given. Raises `DataError` for
    data that no source reads, or without rows or columns; `UsageError` for a `label` that is not
    among these.
    """
    name = build_name(out)
    if path.startswith(("/dev/", "/proc/")):
        raise errors.UsageError(f"DATA={path}: exists only while this command runs; name a file")
    storage.is_remote(path)  # raises for a place that is not supported, before patterns are made
    if (images := _find_image_config(path)) and label not in ("", "label"):
        raise errors.UsageError(f"LABEL={label}: images have one label, {'label'!r}")
    if not images:
        guess, found = explore(path, label, has_header=has_header)
        choice = suggest_label.choose(guess, found, label)
        made = _suggest_columns(guess, found, choice)
        text = _write_text(guess, found, choice, made=made, name=name, path=out)
        seen = f"{len(found.columns)} columns of {found.rows:,} rows"
        columns = {n: c for n, c in found.columns.items() if n not in guess.left_out}
        bad, _ = damage.describe_bad_rows(found, set(columns))
        fix = damage.advise_fix(found, set(columns), guess.source)
        telling = leaks.find(sources.choose(guess.data()), choice.labels, columns)
        used = {n: why for n, why in telling.items() if made[n].steps or made[n].parts}
        numbers = {n for n, m in made.items() if m.rules["type"] == "float32" or m.is_amount}
        for name in choice.labels:
            numbers.discard(name)
            numbers |= set() if traits.is_class(found.columns[name]) else {name}
        said = remarks.find_remarks(guess, found, choice.labels, numbers=numbers)
        features = _select_features(made, choice)
        said += remarks.explain_merged({n: c.merged for n, c in features.items() if c.merged})
        if any(column.steps or column.parts for column in features.values()):
            nothing = ""
            said += remarks.explain_unused({n: c.unused for n, c in made.items() if c.unused}, said)
        else:
            nothing = remarks.explain_no_feature({n: c.notes for n, c in features.items()}, out)
        return Proposal(
            text,
            seen,
            bad,
            fix=fix,
            label=", ".join(choice.labels),
            why=choice.why,
            telling=used,
            remarks=tuple(said),
            nothing=nothing,
        )
    lines, seen, bad = images(path, lambda found: format_scalar(_make_relative(out, found)))
    text = "\n".join([*_write_head(seen, path=out, name=name, pattern=path), *lines])
    config_file.validate(yaml.load(text, yaml.CSafeLoader), where=out)
    return Proposal(text + "\n", seen, bad)


def _find_image_config(
    path: str,
) -> Callable[[str, Callable[[str], str]], tuple[list[str], str, str]] | None:
    """Returns what makes a config for images, if it is these that lie at `path`."""
    if detect_kind.is_image_folder(path):
        return image_config.write_for_folder
    return image_config.write_for_idx if detect_kind.is_idx(path) else None


def explore(path: str, label: str = "", *, has_header: bool | None = None) -> tuple[Guess, Survey]:
    """Finds out how a file, a pattern or a folder is to be read, and reads it. Raises `UsageError`
    for a `label` that is not a column, before that.

    It is read again if that shows that other texts than thought stand for no value, or that numbers
    are written otherwise. Raises `DataError` if there are no rows or no columns.
    """
    guess = detect_format.sniff(path, has_header=has_header)
    labels = suggest_label.parse_labels(label, guess.kinds)
    for name in labels:
        _check_label(name, guess)
    known_form = False
    while True:
        found = _survey(guess)
        refused = any(
            column.kind == "string" and column.about.refused for column in found.columns.values()
        )
        if refused and (other := detect_format.sniff_recoded(guess, found.rows)):
            guess = other
            continue
        known = set(guess.data().csv.missing)
        chosen = [found.columns[name] for name in labels]
        taken = set[str]().union(*(column.tokens - column.absent for column in chosen))
        for name, column in found.columns.items():
            # What is a class of the label cannot stand for no value elsewhere.
            if column.absent and not column.absent & taken:
                guess.absent.setdefault(name, set()).update(column.absent - known)
        absent = set().union(*guess.absent.values()) - known
        written = {}
        if guess.source == "csv" and not known_form:
            texts = [column.texts for column in found.columns.values()]
            written = csv_numbers.detect_format(texts, guess.data().csv.delimiter)
            known_form = True
        separators = _find_separators(guess, found, labels)
        guess.separators |= separators
        if guess.source != "csv" or not (absent or written):
            if separators:
                continue
            break
        if absent:
            guess.csv["missing"] = [*guess.data().csv.missing, *sorted(absent)]
        guess.csv |= written
    if not found.rows:
        raise errors.DataError(f"{path!r}: no rows{_describe_unreadable(guess, found)}")
    by_place = guess.csv.get("header") is False
    for name, column in found.columns.items():
        if why := damage.explain_unusable(column, guess.source):
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


def _check_label(label: str, guess: Guess) -> None:
    """Raises `UsageError` for a label that is not a column of the first file."""
    try:
        suggest_label.check_label(label, guess, guess.kinds)
    except errors.UsageError as error:
        difference = "" if label in guess.left_out else file_columns.describe_difference(guess)
        raise errors.UsageError(f"{error}{difference}") from None


def _describe_unreadable(guess: Guess, found: Survey) -> str:
    """Says how many rows could not be read, and why the first could not; nothing without any."""
    first = found.first_unreadable
    if first is None:
        return ""
    bad = f" but {found.unreadable.total():,} unreadable ones; "
    bad += f"row {first.row} {first.problem}" if first.row >= 0 else first.problem
    return bad + _advise_one_more(first.problem)


def _survey(guess: Guess) -> Survey:
    """Reads the data. Columns are those of the first file, not yet of a config."""
    try:
        return profile.survey(sources.choose(guess.data()), guess.kinds, guess.separators)
    except MissingColumn as error:
        first = next(iter(file_columns.read(guess)), "")
        what_to_do = f"{error.hint}{file_columns.WHAT_TO_DO}"
        owner = f"{first!r}, the first file," if first not in ("", error.path) else "the first file"
        raise MissingColumn(error.path, error.name, what_to_do, owner=owner) from None


def _find_separators(guess: Guess, found: Survey, labels: Sequence[str]) -> dict[str, str]:
    """Returns what separates the items of texts that are lists, by column, where that is new."""
    if SOURCES[guess.source].typed:
        return {}
    others = {n: c for n, c in found.columns.items() if n not in (*labels, *guess.separators)}
    marks = {name: suggest_lists.find_separator(column) for name, column in others.items()}
    return {name: mark for name, mark in marks.items() if mark}


def _advise_one_more(problem: str) -> str:
    """Returns what else to do about rows that have one value more than the header has names."""
    found = re.match(r"has (\d+) values for (\d+) columns:", problem)
    if found is None or int(found[1]) != int(found[2]) + 1:
        return ""
    return ". If the first is the name of the row, as R writes it, give it a name in the header"


def build_name(path: str) -> str:
    """Returns the name of a job that reads `path`."""
    last = _ENDINGS.sub("", path.rstrip("/").rpartition("/")[2])
    if not re.search(r"[A-Za-z0-9]", last) and "/" in path:
        last = path.rstrip("/").rpartition("/")[0].rpartition("/")[2]
    plain = re.sub(r"[^a-z0-9._-]+", "-", last.lower()).strip("._-")[:63]
    return plain or "table"


def render(guess: Guess, found: Survey, *, name: str, path: str, chosen: str = "") -> str:
    """Returns the config to be written to `path`, as YAML with comments. It is valid.

    Raises `UsageError` if the label is `chosen` and no column that can be one.
    """
    choice = suggest_label.choose(guess, found, chosen)
    made = _suggest_columns(guess, found, choice)
    return _write_text(guess, found, choice, made=made, name=name, path=path)


def _write_text(
    guess: Guess,
    found: Survey,
    choice: suggest_label.Choice,
    *,
    made: dict[str, heuristics.SuggestedColumn],
    name: str,
    path: str,
) -> str:
    """Returns the config of columns that are `made`."""
    labels = {name: found.columns[name] for name in choice.labels}
    text = "\n".join(
        [
            *_write_head(f"{found.rows:,} rows", path=path, name=name, pattern=guess.pattern),
            *_write_data(guess, found, choice, path=path, made=made),
            "",
            *suggest_model.write_lines(
                labels,
                _select_features(made, choice),
                round(found.rows * (1 - 2 * _estimate_share(found.rows))),
            ),
        ]
    )
    config_file.validate(yaml.load(text, yaml.CSafeLoader), where=path)
    return text + "\n"


def _suggest_columns(
    guess: Guess, found: Survey, choice: suggest_label.Choice
) -> dict[str, heuristics.SuggestedColumn]:
    """Returns what the config has of each column."""
    columns = {n: c for n, c in found.columns.items() if n not in guess.left_out}
    wide = len(columns) > _WIDE
    made = {n: heuristics.suggest_column(n, c, found.rows, wide=wide) for n, c in columns.items()}
    for column in guess.absent.keys() & made.keys():
        texts = ", ".join(map(repr, sorted(guess.absent[column])))
        made[column].notes.append(f"{texts}: taken for missing")
    for name in choice.labels:
        made[name].rules["type"] = columns[name].kind  # floats since 1970 are texts elsewhere
        suggest_label.allow_missing(made[name], columns[name], several=bool(choice.others))
    for one in filter(None, (*choice.labels, choice.key)):
        made[one].unused = ""
        suggest_dates.set_rule_of_no_feature(made[one].rules, columns[one])
    _tell_apart(_select_features(made, choice))
    return made


def _select_features(
    made: dict[str, heuristics.SuggestedColumn], choice: suggest_label.Choice
) -> dict[str, heuristics.SuggestedColumn]:
    """Returns the columns but for labels and key."""
    return {n: c for n, c in made.items() if n not in (*choice.labels, choice.key)}


def _tell_apart(made: dict[str, heuristics.SuggestedColumn]) -> None:
    """Makes no feature of a column that has the name of another one to TensorFlow."""
    known: dict[str, str] = {}
    for name, column in made.items():
        if not (column.steps or column.parts):
            continue
        other = known.setdefault(feature_check.make_argument_name(name), name)
        if other != name:
            column.steps, column.parts = [], {}
            column.notes.append(f"to TensorFlow called like {other!r}: no feature; rename it")
            column.unused = f"TensorFlow has one name for it and {other!r}: rename it in the data"


def _write_head(seen: str, *, path: str, name: str, pattern: str) -> list[str]:
    shipped = storage.make_absolute(path) == str(config_file.SHIPPED / f"{name}.yaml")
    return [
        f"# A first config for {format_scalar(pattern)}, from {seen}. Look it over:",
        "# its rules let pass all that was read, and numbers as far again on both sides; label,",
        "# key and features are guesses. What is not known when predicting must not be a feature.",
        "#",
        f"#   make train CONFIG={name if shipped else path}",
        f"name: {format_scalar(name)}",
        "",
    ]


def _write_data(
    guess: Guess,
    found: Survey,
    choice: suggest_label.Choice,
    *,
    path: str,
    made: dict[str, heuristics.SuggestedColumn],
) -> list[str]:
    lines = ["data:", f"  source: {guess.source}", "  inputs:"]
    lines.append(f"    train: {format_flow({'files': _make_relative(path, guess.pattern)})}")
    if guess.csv:
        # That of text with a byte order mark is certain.
        doubt = "" if guess.data().csv.encoding.startswith("utf") else "  # encoding: a guess"
        lines.append(f"  csv: {format_flow(guess.csv)}{doubt}")
    lines.append("  columns:")
    # Without a header, columns are told by their place.
    listed = found.columns if guess.csv.get("header") is False else made
    for name in listed:
        if name not in made:
            lines.append(
                f"    {format_scalar(name)}: {{type: string, missing: allow}}  # no values"
            )
            continue
        column = made[name]
        if name in choice.labels:
            suggest_label.list_classes(column, found.columns[name])
        lines.append(f"    # {', '.join(column.notes)}")
        lines.append(f"    {format_scalar(name)}: {format_flow(column.rules)}")
    left_out = {n: why for n, why in guess.left_out.items() if n not in listed}
    lines += [f"    # left out: {format_scalar(n)} {why}" for n, why in left_out.items()]
    if not choice.others:
        why = f"{choice.why}; another: make schema LABEL="
        lines.append(f"  label: {format_scalar(choice.label)}  # {why}")
    if choice.key is not None:
        lines.append(f"  key: {format_flow([choice.key])}  # no two rows agree in it")
    share = _estimate_share(found.rows)
    lines.append(f"  split: {format_flow({'eval': share, 'test': share})}")
    return lines + _write_budget(found, set(made))


def _estimate_share(rows: int) -> float:
    return _SHARE if rows >= _MANY else _SHARE_OF_FEW


def _write_budget(found: Survey, names: set[str]) -> list[str]:
    """Returns the budget that would allow the bad rows, as a comment: people decide on it."""
    bad, budget = damage.describe_bad_rows(found, names)
    return [f"  # error_budget: {budget}  # {bad}"] if bad else []


def write(path: str, text: str) -> None:
    """Writes a new config. Raises `UsageError` if there is one already."""
    if storage.exists(path):
        raise errors.UsageError(f"{path!r} is there already; name another file with OUT=")
    with errors.name_setting("OUT="):
        storage.makedirs(storage.parent(path))
        storage.write_text(path, text)


def _make_relative(config_path: str, pattern: str) -> str:
    """Returns a pattern as the config must have it: relative ones start at the config's folder.

    If the two do not lie in the working folder, which may be moved as a whole, it is absolute.
    """
    folder = storage.parent(storage.make_absolute(config_path))
    outside = storage.is_remote(config_path) or os.path.relpath(folder).startswith("..")
    if os.path.isabs(pattern) or storage.is_remote(pattern):
        return pattern
    return storage.make_absolute(pattern) if outside else os.path.relpath(pattern, folder)
