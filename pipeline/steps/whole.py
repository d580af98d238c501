"""Whole numbers compared with numbers of a config, which may be fractions.

Of whole numbers beyond 2**24 float32 lacks most, so that int64 values are compared as they are.
"""

from __future__ import annotations

import math

LEAST, MOST = -(2**63), 2**63 - 1


def at_most(limit: float) -> int:
    """Returns the largest int64 that is not above a finite number: what is greater than the one is
    greater than the other."""
    return min(max(math.floor(limit), LEAST), MOST)
