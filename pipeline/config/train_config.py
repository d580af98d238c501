"""The `train:` section of a config: how long to train, on what batches, and what is saved."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import pydantic

from pipeline.config.optimizer_config import Optimizer
from pipeline.sections import Above0, Like, NotNegative, Positive, Section


class Profile(Section):
    """Global steps of which every training process writes a trace, to `plugins/profile/` of the
    run; at most 100 steps. A trace shows the parameter servers, too. TensorBoard opens them if its
    profile plugin is installed: [run folder](run-folder.md#tensorboard)."""

    start: NotNegative
    """First global step that is traced."""
    stop: Positive
    """Global step before which tracing ends."""

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
    """How long to train, on what batches, and what is saved."""

    steps: Annotated[int, pydantic.Field(gt=0, le=10**12)] | None = None
    """Global step at which training ends. In asynchronous strategies each worker's update counts as
    one. Give either `steps` or `epochs`."""
    epochs: Annotated[float, pydantic.Field(gt=0, le=1e6)] | None = None
    """Passes over the train records after which training ends; may be a fraction, which
    asynchronous strategies may pass by up to two batches a process. Give either `steps` or
    `epochs`."""
    batch_size: Annotated[int, pydantic.Field(gt=0, le=10**7)] = 128
    """Examples in a batch, counted as `batch_size_is` says."""
    batch_size_is: Literal["per_replica", "global"] = "per_replica"
    """`per_replica`: `batch_size` examples for each copy of the model. `global`: `batch_size`
    examples for all copies that make a step together, which must share them evenly."""
    optimizer: Optimizer = Optimizer()
    precision: Literal["float32", "bfloat16"] = "float32"
    """`bfloat16`: on CPUs that support it, matrices are multiplied in 16 bits; parameters and sums
    keep 32."""
    xla: bool = False
    """Compiles parts of the graph with XLA: slower to start, possibly faster to run."""
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = 1
    """Seed of TensorFlow's random operations (such as initial values and dropout), and of the order
    of records."""
    save_steps: Positive = 500
    """Global steps between two checkpoints."""
    summary_steps: Positive = 100
    """Global steps between two summaries for TensorBoard."""
    keep_checkpoints: Annotated[int, pydantic.Field(ge=2)] = 5
    """Newest checkpoints to keep; the best one is kept in addition. At least 3 with
    `cluster.strategy: multi_worker_mirrored`."""
    open_blocks: Positive = 4096
    """Most blocks whose records a process mixes with each other. It mixes fewer if they take more
    than 64 MiB, or if several processes read."""
    cache_bytes: NotNegative = 128 << 20
    """Most bytes of parsed records that a process keeps in memory, to read and parse each once and
    not in each epoch. The default is 128 MiB; 0 keeps none. They are kept if all of the split
    fit, and if the process will read as many at least twice."""
    on_new_data: Literal["refuse", "restart_epoch"] = "refuse"
    """What a run does if its records are not those of its checkpoint. `refuse`: it stays with its
    records, and exits with 65 if that is impossible. `restart_epoch`: it keeps its parameters and
    starts an epoch of the new records."""
    hooks: tuple[Annotated[str, Like(r"[\w.]+:[\w.]+", "package.module:Hook")], ...] = ()
    """Your own `SessionRunHook`s, as `package.module:Hook`. Each is called without arguments."""
    profile: Profile | None = None
    log_device_placement: bool = False
    """Writes the device of each operation to the logs of the processes that train and evaluate:
    `make logs ROLE=chief`."""
    max_seconds: Above0 | None = None
    """Seconds of training, over all starts of the run, after which it ends; the result is evaluated
    and exported. Not set: no limit."""
    pause_step: Positive | None = None
    """Global step at which training ends for now: it is evaluated and exported as at its end, and
    the same run continues with a later `pause_step`, or without one. A schedule of the learning
    rate is that of all steps. Not set: no pause."""
    # What the epochs come to: set by `epochs.with_length`, never stored in a config.
    _length: Length | None = pydantic.PrivateAttr(default=None)

    @property
    def length(self) -> Length | None:
        """How long training is in steps; `None` while epochs have not been turned into steps."""
        return self._length if self.steps is None else Length(self.steps, self.steps)

    @property
    def max_steps(self) -> int:
        """The global step at which training ends or pauses, which must be known by now."""
        assert self.length is not None, "epochs have not been turned into steps yet"
        return min(self.length.last, self.pause_step or self.length.last)

    @property
    def planned_steps(self) -> int | None:
        """The same; `None` while epochs have not been turned into steps."""
        return None if self.length is None else self.max_steps

    def pauses_at(self, step: int) -> bool:
        """True if training pauses at that step, with more to be made."""
        assert self.length is not None, "epochs have not been turned into steps yet"
        return self.max_steps <= step < self.length.last

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
