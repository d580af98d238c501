"""Words that people give to runs, in `tags.json`: to find them again, and to tell them apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipeline import errors
from pipeline.runs.run_folder import RunFolder

FILE_NAME = "tags.json"
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def read(run: RunFolder) -> tuple[str, ...]:
    """Returns the tags of a run in the order they were given; none for a file that cannot be
    used."""
    try:
        found = (run.impatient.read(FILE_NAME) or {}).get("tags", [])
    except errors.PipelineError:
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


def change(run: RunFolder, changes: Iterable[str]) -> tuple[str, ...]:
    """Adds tags to a run, or removes those that begin with `-`, and returns all it has then. Raises
    `UsageError` for a word that cannot be a tag."""
    found = dict.fromkeys(read(run))
    for word in changes:
        tag = word.removeprefix("-")
        if not _TAG.fullmatch(tag):
            raise errors.UsageError(
                f"--tags {word!r}: must be up to 40 letters, digits, '.', '_' and '-', beginning "
                "with a letter or digit; a '-' before it removes it"
            )
        if word.startswith("-"):
            found.pop(tag, None)
        else:
            found[tag] = None
    run.write(FILE_NAME, {"tags": list(found)})
    return tuple(found)
