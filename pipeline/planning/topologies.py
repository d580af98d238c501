"""Which topologies a job can be planned for: those that it can be trained with."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

from pipeline import errors
from pipeline.config import strategy_table

# Numbers of workers and of servers.
Size = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Counts:
    """Numbers of processes of a role, and whether they were `given` or are the defaults."""

    flag: str
    numbers: Sequence[int]
    given: bool


@dataclasses.dataclass(frozen=True)
class Selection:
    """The sizes that a strategy is planned for, and a line for each cause of leaving out others."""

    sizes: Sequence[Size]
    left_out: Sequence[str]


def select(
    strategy: str, workers: Counts, servers: Counts, *, check: Callable[[str, Size], None]
) -> Selection:
    """Returns the sizes that pass `check`, which raises `UsageError` for what cannot be trained.

    Defaults that do not pass are left out. Raises `UsageError` for a given number that passes with
    none of the other role, and if no size is left.
    """
    has_servers = strategy_table.STRATEGIES[strategy].servers
    axes = [workers, servers if has_servers else Counts("ps", [0], given=False)]
    sizes = [(w, ps) for ps, w in itertools.product(axes[1].numbers, axes[0].numbers)]
    refused = {size: why for size in sizes if (why := _find_refusal(check, strategy, size))}
    for place, axis in enumerate(axes):
        for number in axis.numbers if axis.given else ():
            own = [size for size in sizes if size[place] == number]
            if refused.keys() >= {*own}:
                raise _refuse(axes, own[0], refused[own[0]])
    if len(refused) == len(sizes):
        raise _refuse(axes, sizes[0], refused[sizes[0]])
    causes: dict[str, list[str]] = {}
    for (count, ps), why in refused.items():
        causes.setdefault(why, []).append(f"{count} + {ps}" if has_servers else str(count))
    return Selection(
        [size for size in sizes if size not in refused],
        [f"left out: {strategy} {', '.join(names)}: {why}" for why, names in causes.items()],
    )


def _find_refusal(check: Callable[[str, Size], None], strategy: str, size: Size) -> str | None:
    try:
        check(strategy, size)
    except errors.UsageError as error:
        return str(error)
    return None


def _refuse(axes: Sequence[Counts], size: Size, why: str) -> errors.UsageError:
    named = [
        f"--{axis.flag}={number}" for axis, number in zip(axes, size, strict=True) if axis.given
    ]
    return errors.UsageError(": ".join(filter(None, [" ".join(named), why])))
