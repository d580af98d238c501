"""Parts of `run.json` whose readers rely on more than a type: a record with others is damaged."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic

# What each best checkpoint has, besides what else its file has.
_OF_BEST = {"metric": str, "value": int | float, "step": int}


def _check_best(best: dict[str, Any] | None) -> dict[str, Any] | None:
    if not best:
        return best
    for key, kind in _OF_BEST.items():
        if not isinstance(best.get(key), kind):
            raise ValueError(f"{key} is {best.get(key)!r}")
    if best.get("interval") is not None:
        _check_ends(best["interval"])
    return best


def _check_ends(ends: Any) -> Any:
    numbers = ends[:2] if isinstance(ends, list) else ()
    if isinstance(ends, str) or [isinstance(end, int | float) for end in numbers] == [True, True]:
        return ends
    raise ValueError(f"an interval is {ends!r}")


# Both ends of an interval, and remarks; or why there is none.
Ends = Annotated[list[float | str] | str, pydantic.AfterValidator(_check_ends)]
Best = Annotated[dict[str, Any] | None, pydantic.AfterValidator(_check_best)]
