"""How rows are held out of training: by a hash, by time, or as one of their columns says.

Which one decides `by`. All are functions of the row alone, so a row stays in its split when
others are added, and whatever the workers do.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import pydantic

from pipeline.sections import Fraction, Section

SplitName = Literal["train", "eval", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "eval", "test")


class HashSplit(Section):
    """Holds out shares of the rows by a hash. A larger share keeps the rows it had."""

    by: Literal["hash"] = "hash"
    """The kind of split; may be left out."""
    columns: tuple[str, ...] = ()
    """Columns that are hashed, so that rows with equal values there stay together. Empty:
    `data.key`, or else the content of the row."""
    eval: Fraction = 0.1
    """Share of the rows for eval. `eval` and `test` together are below 1."""
    test: Fraction = 0.0
    """Share of the rows for test."""
    salt: str = "eval"
    """Enters the hash: another text holds out other rows."""

    @pydantic.model_validator(mode="after")
    def _check_train_share(self) -> HashSplit:
        if self.eval + self.test >= 1:
            raise ValueError(f"eval={self.eval:g} and test={self.test:g} leave nothing to train on")
        return self

    @property
    def held_out(self) -> tuple[SplitName, ...]:
        """The splits that are cut out of train."""
        shares: dict[SplitName, float] = {"eval": self.eval, "test": self.test}
        return tuple(name for name, share in shares.items() if share)


def _convert_to_text(value: Any) -> Any:
    """YAML makes objects of unquoted times."""
    return value.isoformat() if isinstance(value, datetime.date) else value


Moment = Annotated[int | float | str, pydantic.BeforeValidator(_convert_to_text)]


class TimeSplit(Section):
    """Holds out rows from a moment on.

    Moments of a column of texts are ISO 8601, such as `2013-12-01` or `2013-12-01T06:00:00Z`, in
    UTC unless they name an offset. A column with `dates` is read in that form. Moments of a column
    of numbers are numbers.
    """

    by: Literal["time"]
    """The kind of split."""
    column: str
    """Column that holds the moment."""
    eval: Moment | None = None
    """First moment of eval, before `test`. Not set: no row goes to eval. Give `eval`, `test` or
    both."""
    test: Moment | None = None
    """First moment of test. Not set: no row goes to test."""

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
    """Holds out rows by the value of a column."""

    by: Literal["column"]
    """The kind of split."""
    column: str
    """Column that decides."""
    values: dict[int | str, SplitName] = pydantic.Field(
        default={name: name for name in SPLITS}, min_length=1
    )
    """Split of each value of the column. A row with another value becomes a dead letter."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What decides."""
        return (self.column,)

    @property
    def held_out(self) -> tuple[SplitName, ...]:
        """The splits that are cut out of train."""
        return tuple(name for name in SPLITS[1:] if name in self.values.values())


def _get_kind(value: Any) -> Any:
    return value.get("by", "hash") if isinstance(value, dict) else getattr(value, "by", None)


Split = Annotated[
    Annotated[HashSplit, pydantic.Tag("hash")]
    | Annotated[TimeSplit, pydantic.Tag("time")]
    | Annotated[ColumnSplit, pydantic.Tag("column")],
    pydantic.Discriminator(_get_kind),
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
            f"{moment!r} is not a time such as 2013-12-01 or 2013-12-01T06:00:00Z"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.timezone.utc)
    return (
        found - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    ) // datetime.timedelta(microseconds=1)
