"""Which checkpoints were not evaluated.

The evaluator takes the newest one. What was saved meanwhile is passed over, and may be deleted
before anybody has seen it: so the chief lists all that it saves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipeline.runs.run_folder import RunFolder

# {"steps": [int]}: what the checkpoints of a run are named after, over all its starts.
SAVED = "saved.json"
_SHOWN = 5


class Saved:
    """An action after each save: adds its step to the list."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def __call__(self, step: int, seconds: float) -> None:
        """Notes one save; that of step 0 has learned nothing, and is not to be evaluated."""
        known = _read_saved(self._run)
        if step > 0 and step not in known:
            self._run.write(SAVED, {"steps": sorted([*known, step])})


def list_steps(run: RunFolder, evaluated: Collection[int]) -> list[int]:
    """Returns the steps of the checkpoints that were saved before the last one `evaluated`, and
    are not among these.

    Both are what checkpoints are named after; asynchronous workers' may hold a later step.
    """
    last, seen = max(evaluated, default=0), set(evaluated)
    return [step for step in _read_saved(run) if step < last and step not in seen]


def describe(skipped: Sequence[int], evaluated: int) -> str:
    """Returns one line that names them, next to the number of those evaluated."""
    named = [*map(str, skipped[:_SHOWN]), *(["…"] if len(skipped) > _SHOWN else [])]
    return (
        f"{len(skipped):,} of {len(skipped) + evaluated:,} checkpoints were not evaluated "
        f"(superseded, or throttled by eval.throttle_seconds): steps {', '.join(named)}"
    )


def _read_saved(run: RunFolder) -> list[int]:
    found: list[int] = (run.read(SAVED) or {"steps": []})["steps"]
    return found
