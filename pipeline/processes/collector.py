"""How often Python looks for objects that only refer to each other."""

from __future__ import annotations

import gc

# New objects before it looks. With Python's own 700 a table of 10,000 columns, whose config,
# statistics and graphs are millions of objects that stay, took twice as long.
_OBJECTS = 100_000
# How often it looks at those that have stayed, in runs before.
_OLDER = 20


def relax() -> None:
    """Has this process look seldom."""
    gc.set_threshold(_OBJECTS, _OLDER, _OLDER)
