"""Which different numbers float32 would make equal."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from pipeline import config
from preprocessing.arrow import cast
from preprocessing.sources import csv_numbers
from preprocessing.statistics import distinct

# float32 has to tell this share of different numbers apart, or too many become equal.
_APART = 0.9
# float64 has all whole numbers up to this, and then only some.
EXACT = 2**53
INT64 = range(-(2**63), 2**63)
# So many whole numbers that int64 has no room for are kept.
_KEPT = 1000
_WHOLE = re.compile(r"[+-]?\d{1,300}(\.0*)?", re.ASCII)


def is_loss(different: int, apart: int) -> bool:
    """Tells if of so many different numbers float32 keeps too few apart."""
    return apart < _APART * different


@dataclasses.dataclass
class Large:
    """Whole numbers that int64 has no room for; of very many the first."""

    numbers: set[int] = dataclasses.field(default_factory=set)

    def see(self, numbers: Iterable[int]) -> None:
        """Takes in whole numbers, of which some may be smaller."""
        if len(self.numbers) < _KEPT:
            self.numbers |= {number for number in numbers if number not in INT64}

    @property
    def name_things(self) -> bool:
        """Tells if they are so close to each other that float32 would make too many equal."""
        with np.errstate(over="ignore"):
            single = {np.float32(float(n)) for n in self.numbers}
        return is_loss(len(self.numbers), len(single))


@dataclasses.dataclass
class Apart:
    """How many different numbers there are, and how many of float32, of more than are kept."""

    exact: distinct.Distinct = dataclasses.field(default_factory=distinct.Distinct)
    single: distinct.Distinct = dataclasses.field(default_factory=distinct.Distinct)

    def see(self, values: pa.Array, rules: config.Csv) -> None:
        """Takes in numbers, or texts of which some may be numbers."""
        if pa.types.is_binary(values.type):
            values, _ = cast.cast(csv_numbers.normalize(values, rules), pa.string())
        made, _ = cast.cast(values, pa.float64())
        numbers = made.drop_null().to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            single = numbers.astype(np.float32)
        self.exact.see_numbers(numbers[~np.isnan(numbers)])
        self.single.see_numbers(single[~np.isnan(single)])


def count_exactly(texts: Sequence[str]) -> int:
    """Returns how many different finite numbers texts are, to the last digit."""
    numbers = np.array(texts, float)
    large = (np.abs(numbers) >= EXACT) & np.isfinite(numbers)
    exact = {decimal.Decimal(texts[n]) for n in np.flatnonzero(large)}
    return len(np.unique(numbers[np.abs(numbers) < EXACT])) + len(exact)


def are_large(texts: Iterable[str]) -> bool:
    """Tells if texts are whole numbers, of which some are too large for int64."""
    numbers = [_parse_whole(text) for text in texts]
    return None not in numbers and any(n not in INT64 for n in numbers)


def find_others(texts: Sequence[str]) -> list[str]:
    """Returns the texts that are numbers but not whole ones, of numbers that are mostly whole and
    of which some are too large for int64."""
    odd = [text for text in texts if _parse_whole(text) is None]
    few = 0 < 2 * len(odd) < len(texts) and all(map(csv_numbers.is_number, odd))
    return (
        odd if few and are_large(text for text in texts if _parse_whole(text) is not None) else []
    )


def _parse_whole(text: str) -> int | None:
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None
