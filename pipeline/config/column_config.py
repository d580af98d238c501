"""The `data.columns` section of a config: what a value of a column may be."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import pydantic

from pipeline.sections import NotNegative, Positive, Section
from pipeline.steps import date_forms

OneCharacter = Annotated[str, pydantic.Field(pattern=r"^[\x01-\x7f]$")]
# In the place of a character: the text is an array of JSON.
JSON = "json"
Separator = Annotated[str, pydantic.Field(pattern=rf"^([\x01-\x7f]|{JSON})$")]


def _normalize_number(number: float) -> float:
    """Returns a whole number that no float equals as it is, and any other as a float."""
    return number if isinstance(number, int) and int(float(number)) != number else float(number)


def _encode_infinity(number: float) -> int | float | str:
    """Returns an infinite number as a text, which is read back: JSON has none, pydantic's is null
    and so no limit."""
    if not isinstance(number, float) or math.isfinite(number):
        return number
    return "Infinity" if number > 0 else "-Infinity"


# An integer of int64 can lie between two floats.
Bound = Annotated[
    int | float,
    pydantic.AfterValidator(_normalize_number),
    pydantic.PlainSerializer(_encode_infinity, when_used="json"),
]

# The keys of a column that only lists have.
# Half a step above the largest float32: what is not below it is rounded to infinity.
_INFINITE_FROM = 2.0**128 - 2.0**103
_OF_LISTS = ("max_items", "on_longer", "separator", "same_length_as")


class VocabularyRules(Section):
    """Which values of a column get an id: the most frequent values of the train split, ties
    ordered by value."""

    top_k: Positive | None = None
    """Most values to list. Not set: no limit."""
    min_count: Positive = 1
    """How often a value must occur in the train split to be listed: in so many rows, or of a list
    so many items."""


class Column(Section):
    """One column of a record. Preprocessing checks each raw value against it; the trainer parses
    records by it.

    Of a list, all keys but `missing` and those for lists are about each item.
    """

    type: Literal["uint8", "int64", "float32", "string", "image"]
    """`uint8`: unsigned bytes, row-major. `int64`, `float32`: numbers. `string`: UTF-8 text.
    `image`: the bytes of a PNG or JPEG file that can be decoded."""
    shape: tuple[Positive, ...] = ()
    """Shape of one record's value; empty: a single value. Not for `image`."""
    list: bool = False
    """Whether a row has any number of values, such as tags. Not for `uint8` and `image`, and not
    with `shape`. See [lists](raw-data.md#lists)."""
    max_items: Positive | None = None
    """Most items of a list, to which each is padded while it is trained on. Required by `list`."""
    on_longer: Literal["reject", "truncate", "keep_last"] = "reject"
    """What happens to a row with a longer list. `reject`: it becomes a dead letter. `truncate`: its
    first `max_items` items are kept, and the row is counted. `keep_last`: the same with its last
    items, such as the latest clicks."""
    separator: Separator = "|"
    """One ASCII character between items, where a list is written as one text. `json`: the text is a
    JSON array, such as `["a", "b"]`, or a list as Python prints it: `['a', None]`."""
    same_length_as: str | None = None
    """Another list, for each of whose items this one has one, such as the seconds that each clicked
    item was looked at. A row where the lengths differ becomes a dead letter. Both have the same
    `max_items` and `on_longer`."""
    min: Bound | None = None
    """Smallest valid value, inclusive. Only for numbers. A `float32` that is minus infinity makes
    its row a dead letter, unless `-.inf` is given here."""
    max: Bound | None = None
    """Largest valid value, inclusive. Only for numbers. Infinity is allowed as by `min`, with
    `.inf`: give features of it a `clip` step."""
    min_length: NotNegative = 0
    """Shortest valid text, in characters. Only for `string`."""
    max_length: Positive | None = None
    """Longest valid text, in characters. Only for `string`."""
    allowed: tuple[int | float | str, ...] = ()
    """All valid values; empty: any. Not for `uint8` and `image`."""
    dates: date_forms.Form | None = None
    """All values are days of the calendar, maybe with a time, or numbers since 1970, written in
    this [form](config.md#date); a row with another value becomes a dead letter. Only for `string`,
    and `ymd` also for `int64`. Not set: any text. The step `date` makes -1 of one that is no date,
    which draws a warning in preprocessing and predictions."""
    missing: Literal["reject", "drop", "allow"] = "reject"
    """What happens to a row without a value. NaN is no value, in every source. `reject`: it becomes
    a dead letter. `drop`: it is dropped and counted. `allow`: the record lacks the feature, and the
    trainer uses `default`.
    `allow` is not for `uint8`, `image`, `data.key` and the columns of `data.split`; for the label
    of a model of this project it needs `default`."""
    default: int | float | str | None = None
    """What the trainer uses for a missing value. Not set: NaN for `float32`, -1 for `int64`, an
    empty text for `string`. Of a list it fills the places after the last item, so that no item may
    be equal to it."""
    sensitive: bool = False
    """Hides the values in logs, pages, statistics and dead letters. A declared `vocabulary` still
    lists them."""
    vocabulary: VocabularyRules | None = None

    @property
    def size(self) -> int:
        """Number of values in one record."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def item(self) -> Column:
        """Returns the rules of one item of a list, as a column of its own."""
        single = {"list": False, "max_items": None, "default": None}
        return self.model_copy(update=single)

    @property
    def is_image(self) -> bool:
        """Tells if a record holds it as one string of bytes, whatever its shape."""
        return self.type in ("uint8", "image")

    @property
    def stands_for_missing(self) -> int | float | str:
        """What the trainer sees where a record has no value."""
        if self.default is not None:
            return self.default
        return {"int64": -1, "float32": math.nan}.get(self.type, "")

    @pydantic.model_validator(mode="after")
    def _lists_are_whole(self) -> Column:
        if not self.list:
            given = [n for n in _OF_LISTS if n in self.model_fields_set and getattr(self, n)]
            if given:
                raise ValueError(f"{given[0]} is for lists; write list: true, or take it away")
            return self
        if self.is_image or self.shape:
            got = f"shape {list(self.shape)}" if self.shape else f"type {self.type}"
            raise ValueError(f"list takes items that are int64, float32 or string, got {got}")
        if self.max_items is None:
            raise ValueError("list: true needs max_items, the most items of a row, such as 50")
        return self

    @pydantic.model_serializer(mode="wrap")
    def _serialize(self, handler: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out keys of lists in other columns, and `dates` where it is not set: their records
        are named without."""
        found: dict[str, Any] = handler(self)
        if self.dates is None:
            found.pop("dates", None)
        if self.list and self.same_length_as is None:
            found.pop("same_length_as", None)
        if self.list:
            return found
        return {name: value for name, value in found.items() if name not in ("list", *_OF_LISTS)}

    @pydantic.model_validator(mode="after")
    def _rules_fit_the_type(self) -> Column:
        text = self.type == "string"
        if text and not (self.min is None and self.max is None):
            raise ValueError("min and max are for numbers; a string has min_length and max_length")
        if not text and (self.min_length or self.max_length):
            raise ValueError(f"min_length and max_length are for strings, this is {self.type}")
        if self.dates and not (text or (self.type == "int64" and self.dates == "ymd")):
            raise ValueError(f"dates are of strings, and ymd of int64, this is {self.type}")
        if self.is_image and (self.missing == "allow" or self.allowed or self.vocabulary):
            raise ValueError(f"{self.type} takes neither missing: allow, allowed, nor a vocabulary")
        if self.type == "image" and not (self.shape == () and self.min is None is self.max):
            raise ValueError("image takes no shape, min or max: its size is in its bytes")
        for least, most in (("min", "max"), ("min_length", "max_length")):
            low, high = getattr(self, least), getattr(self, most)
            if low is not None and high is not None and low > high:
                raise ValueError(f"{least} {low} is above {most} {high}: no value would be valid")
        for value in (*self.allowed, *(() if self.default is None else (self.default,))):
            whole = self.type != "int64" or isinstance(value, int)
            if isinstance(value, str) != text or not whole:
                raise ValueError(f"{value!r} in allowed or default is not of type {self.type}")
            if not isinstance(value, str) and _is_beyond(value, self.type):
                raise ValueError(f"{value!r} in allowed or default is beyond {self.type}")
        return self


def _is_beyond(value: float, type_: str) -> bool:
    """Tells if a number does not fit; of float32 if it would become infinite."""
    if type_ == "int64":
        return not -(2**63) <= value < 2**63
    return abs(value) >= _INFINITE_FROM


# What `data.provenance` adds to records: the file as the manifest calls it, and the row in it as
# dead letters count it.
PROVENANCE = {
    "provenance/source": Column(type="string"),
    "provenance/row": Column(type="int64"),
}
