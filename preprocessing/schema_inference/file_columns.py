"""Which files of a pattern have which columns, where the files differ: a config is made of those of
the first."""

from __future__ import annotations

import collections
import itertools

from pipeline import errors
from preprocessing import sources
from preprocessing.schema_inference.raw_format import Guess

# Files that are looked at, those that an error or a warning shows, and columns of one.
_FILES, _SHOWN, _COLUMNS = 100, 3, 10
WHAT_TO_DO = ". Give a pattern of files that have the same columns"


def read(guess: Guess) -> dict[str, tuple[str, ...]]:
    """Returns the columns of each of the first files, by path; nothing of those that do not say
    which they have, or cannot be read."""
    source = sources.choose(guess.data())
    found: dict[str, tuple[str, ...]] = {}
    for file in source.files()[:_FILES]:
        try:
            names = source.read_names(file)
        except errors.DataError:
            continue
        if names is not None:
            found[file.path] = names
    return found


def describe_difference(guess: Guess) -> str:
    """Returns which file has which columns, to end an error with, if not all have the same."""
    groups: dict[frozenset[str], list[str]] = collections.defaultdict(list)
    known = read(guess)
    for path, names in known.items():
        groups[frozenset(names)].append(path)
    if len(groups) < 2:
        return ""
    shown = [_describe_group(paths, known[paths[0]]) for paths in groups.values()]
    more = f"; and {len(shown) - _SHOWN:,} more kinds" if len(shown) > _SHOWN else ""
    return f". The files differ: {'; '.join(shown[:_SHOWN])}{more}{WHAT_TO_DO}"


def _describe_group(paths: list[str], names: tuple[str, ...]) -> str:
    others = f" and {len(paths) - 1:,} more have" if len(paths) > 1 else " has"
    return f"{paths[0]!r}{others} {_list_names(names)}"


def _list_names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _COLUMNS:,} more" if len(names) > _COLUMNS else ""
    return ", ".join(names[:_COLUMNS]) + more


def warn_of_ignored(guess: Guess) -> list[str]:
    """Returns a line for each of the first files with a column that the first file lacks: it is not
    in the config."""
    known = read(guess)
    if len(known) < 2:
        return []
    first, *others = known
    said = []
    for path in others:
        more = tuple(n for n in known[path] if n not in known[first] and n not in guess.kinds)
        if more:
            said.append(
                f"{path!r} has columns that {first!r}, the first file, lacks, so they are left "
                f"out: {_list_names(more)}{WHAT_TO_DO}"
            )
    rest = f"{len(said) - _SHOWN:,} more files have columns that the first file lacks"
    return [*itertools.islice(said, _SHOWN), rest] if len(said) > _SHOWN else said
