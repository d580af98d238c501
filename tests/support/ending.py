"""Where training may end."""

from __future__ import annotations

BEYOND = 2  # docs/tensorflow-pitfalls.md#steps-beyond-the-limit


def find_last_steps(steps: int, *, processes: int) -> range:
    """Returns the global steps at which asynchronous training in `processes` for `steps` ends."""
    return range(steps, steps + BEYOND * processes + 1)
