"""How rows are held out of training: by a hash, by time, or as one of their columns says.

Which one decides `by`. All are functions of the row alone, so a row stays in its split when
others are added, and whatever the workers do.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import pydantic

from pipeline.config.sections import Fraction, Section

SplitName = Literal["train", "eval", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "eval", "test")


class HashSplit(Section):
    """Shares of the rows, by a hash with `salt`.

    It is the hash of the values of `columns`, so that rows which agree in these (a user, a day)
    stay together; without them that of the row's key, or of its content if it has none. A larger
    share keeps the rows it had.
    """

    by: Literal["hash"] = "hash"
    columns: tuple[str, ...] = ()
    eval: Fraction = 0.1
    test: Fraction = 0.0
    salt: str = "eval"

    @pydantic.model_validator(mode="after")
    def _something_is_left(self) -> HashSplit:
        if self.eval + self.test >= 1:
            raise ValueError(f"eval={self.eval:g} and test={self.test:g} leave nothing to train on")
        return self

    @property
    def held_out(self) -> tuple[SplitName, ...]:
        """The splits that are cut out of train."""
        shares: dict[SplitName, float] = {"eval": self.eval, "test": self.test}
        return tuple(name for name, share in shares.items() if share)


def _as_text(value: Any) -> Any:
    """YAML makes objects of unquoted times."""
    return value.isoformat() if isinstance(value, datetime.date) else value


Moment = Annotated[int | float | str, pydantic.BeforeValidator(_as_text)]


class TimeSplit(Section):
    """Rows whose `column` is at or after `eval` go to eval, from `test` on to test.

    Of a string column, moments are ISO 8601 such as 2013-12-01 or 2013-12-01T06:00:00Z, UTC
    unless they say otherwise; of a column of numbers, numbers.
    """

    by: Literal["time"]
    column: str
    eval: Moment | None = None
    test: Moment | None = None

    @pydantic.model_validator(mode="after")
    def _moments_are_in_order(self) -> TimeSplit:
        if not self.held_out:
            raise ValueError("missing: eval or test, the moment from which rows are held out")
        found = [instant(moment) for moment in (self.eval, self.test) if moment is not None]
        if len({isinstance(moment, str) for moment in (self.eval, self.test) if moment}) > 1:
            raise ValueError(f"eval={self.eval!r} and test={self.test!r}: both numbers or neither")
        if found != sorted(set(found)):
            raise ValueError(f"eval={self.eval} must be before test={self.test}")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """What decides."""
        return (self.column,)

    @property
    def held_out(self) -> tuple[SplitName, ...]:
        """The splits that are cut out of train."""
        moments: dict[SplitName, Moment | None] = {"eval": self.eval, "test": self.test}
        return tuple(name for name, moment in moments.items() if moment is not None)


class ColumnSplit(Section):
    """The value of `column` says where a row goes: `values` has the split of each."""

    by: Literal["column"]
    column: str
    values: dict[int | str, SplitName] = pydantic.Field(
        default={name: name for name in SPLITS}, min_length=1
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """What decides."""
        return (self.column,)

    @property
    def held_out(self) -> tuple[SplitName, ...]:
        """The splits that are cut out of train."""
        return tuple(name for name in SPLITS[1:] if name in self.values.values())


def _by(value: Any) -> Any:
    return value.get("by", "hash") if isinstance(value, dict) else getattr(value, "by", None)


Split = Annotated[
    Annotated[HashSplit, pydantic.Tag("hash")]
    | Annotated[TimeSplit, pydantic.Tag("time")]
    | Annotated[ColumnSplit, pydantic.Tag("column")],
    pydantic.Discriminator(_by),
]


def instant(moment: int | float | str) -> int | float:
    """Returns a number as it is, and of a text the microseconds since 1970.

    Raises `ValueError` for what is no moment.
    """
    if not isinstance(moment, str):
        return moment
    try:
        found = datetime.datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(
            f"{moment!r} is no time such as 2013-12-01 or 2013-12-01T06:00:00Z"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.timezone.utc)
    return (
        found - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    ) // datetime.timedelta(microseconds=1)
