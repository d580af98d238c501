"""Which tests run in one process, of the several that `make test` starts, and in which order."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Mapping

from xdist.scheduler import LoadFileScheduling

from tests.support import sets

# Fixtures that take minutes of training or preprocessing, which each process would do again, by the
# name of their group; and where they are known.
COSTLY: Mapping[str, tuple[str, str]] = {
    "modes": ("run_of", "e2e"),
    "finished": ("finished", "trainer"),
    "published": ("classifier|regressor", "."),
}


@functools.cache
def find_group(path: pathlib.Path) -> str | None:
    """Returns the group of a file whose tests use a costly fixture."""
    text = path.read_text()
    for name, (fixtures, folder) in COSTLY.items():
        inside = path.is_relative_to(sets.TESTS / folder)
        if inside and re.search(rf"^ *def \w+\([^)]*\b(?:{fixtures})\b[^)]*\)", text, re.MULTILINE):
            return name
    return None


def find_rank(path: pathlib.Path) -> int:
    """Returns when a file comes: what takes long first, so that no process is alone at the end."""
    if find_group(path):
        return 0
    return 1 if sets.is_heavy(path) else 2


class Scheduling(LoadFileScheduling):
    """By files, as `--dist loadfile`, but those of a group together."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return find_group(sets.TESTS.parent / file) or file
