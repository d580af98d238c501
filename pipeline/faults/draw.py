"""Which faults a run meets, of which kind and when: drawn by seed, before it starts."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from pipeline import errors
from pipeline.faults.targets import ALL, LAUNCHER, Targets

# Kind to what is done.
KINDS: Mapping[str, str] = {
    "kill": "kill -9 of a process, of all, of the one they are forked from, or of the launcher",
    "stop": "SIGSTOP of a process for some seconds, then SIGCONT",
    "checkpoint": "the newest checkpoint is altered, and the chief killed",
    "shard": "a shard of the records is altered, the launcher killed, the same command given again",
    "disk": "no room on the disk of the run for some seconds, or until it ends by that",
    "slow_disk": "each opening and reading of a file of the run takes longer for some seconds",
    "network": "no network between the processes for some seconds",
    "clock": "the time of day of all processes jumps by up to two hours, or back",
}
_LASTS = {  # seconds, from and to
    "stop": (1.0, 5.0),
    "disk": (5.0, 20.0),
    "slow_disk": (5.0, 20.0),
    "network": (1.0, 5.0),
}
# The part of training in which faults happen: a run has to begin, and to end.
_FROM, _TO = 0.05, 0.85
# Training needs so many steps for a fault, and so many seconds of steps.
_STEPS_EACH, _SECONDS_EACH = 10, 1.0


@dataclasses.dataclass
class Fault:
    """One fault, due once training has made `step` steps; and what became of it.

    It struck `at` a step: one fault waits until training continues after the one before.
    `seconds_to_next_step` counts from the fault until what it hit makes steps again, `steps_lost`
    how far the global step fell back if a checkpoint was restored, else 0. `doubled` and `missed`
    are records, by the ledger of the checkpoints up to the next fault.
    """

    kind: str
    target: str
    step: int
    seconds: float = 0.0
    struck: float | None = None  # Unix time, by the real clock
    at: int | None = None
    seconds_to_next_step: float | None = None
    steps_lost: int | None = None
    doubled: int = 0
    missed: int = 0
    note: str = ""


def count_needed_steps(faults: int, rate: float) -> int:
    """Returns how many steps training must have for so many faults, at `rate` steps a second."""
    each = max(_STEPS_EACH, round(_SECONDS_EACH * rate))
    return round(faults * each / (_TO - _FROM))


def check_length(steps: int, faults: int, rate: float = 0.0, *, seconds: int = 0) -> None:
    """Raises `UsageError` if training is too short for so many faults; `seconds` are those that it
    was cut to."""
    least = count_needed_steps(faults, rate)
    if steps < least:
        most = next((n for n in range(faults, 0, -1) if count_needed_steps(n, rate) <= steps), 0)
        fewer = f", or FAULTS={most}" if most else ""
        longer = f"SECONDS={-(-seconds * least // steps)}" if seconds and steps else ""
        remedy = longer or f'SET="train.steps={least}"'
        raise errors.UsageError(
            f"--faults={faults}: training has {steps:,} steps, and so many faults need at least "
            f"{least:,}. Give {remedy}{fewer}"
        )


def faults(
    number: int,
    seed: int,
    *,
    steps: int,
    kinds: Sequence[str],
    counts: Mapping[str, int],
    together: bool,
) -> list[Fault]:
    """Returns the faults of a run of `steps` steps, in the order they are due.

    All `kinds` come about as often, kills twice. `counts` are the processes by role; `together`
    says that all that train are restarted as one.
    """
    rng = random.Random(f"chaos {seed}")
    targets = Targets(counts, rng, together=together)
    drawn: list[str] = []
    often = [kind for kind in kinds if kind == "kill"]
    while len(drawn) < number:
        drawn += rng.sample([*kinds, *often], len(kinds) + len(often))
    due = sorted(rng.sample(range(round(_FROM * steps), round(_TO * steps)), number))
    return [
        _draw_fault(kind, step, targets, rng=rng)
        for kind, step in zip(drawn[:number], due, strict=True)
    ]


def _draw_fault(kind: str, step: int, targets: Targets, *, rng: random.Random) -> Fault:
    target = LAUNCHER
    if kind == "kill":
        target = targets.draw()
    elif kind == "stop":
        target = rng.choice(targets.tasks)
    elif kind == "checkpoint":
        target = "chief-0"
    elif kind in ("disk", "slow_disk", "network", "clock"):
        target = ALL
    if kind not in ("stop", "slow_disk", "clock"):
        targets.note(target)
    return Fault(kind, target, step, round(rng.uniform(*_LASTS.get(kind, (0.0, 0.0))), 1))
