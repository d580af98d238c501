"""One measured figure, and what it is held against."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

_COMPARE = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt}


@dataclasses.dataclass(frozen=True)
class Result:
    """A row of the table.

    `against` is the figure of the peer or the limit, in the same `unit`; `ratio` is
    `value / against`, and `goal` what it should be, such as `>= 0.8`. `peer` says what was
    measured against, `gap` in one line why the goal is missed, if it is.
    """

    name: str
    value: float
    unit: str
    against: float
    goal: str
    peer: str
    gap: str

    @property
    def ratio(self) -> float:
        """How many times the peer's figure this is."""
        return self.value / self.against

    @property
    def met(self) -> bool:
        """Tells if the ratio is what the goal wants."""
        sign, limit = self.goal.split()
        return bool(_COMPARE[sign](self.ratio, float(limit)))

    def to_json(self) -> dict[str, Any]:
        """Returns the row as `bench.json` has it."""
        return {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "against": round(self.against, 3),
            "ratio": round(self.ratio, 3),
            "goal": self.goal,
        }
