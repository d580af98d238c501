"""What a checkpoint says of the records that were applied; read without TensorFlow.

`trainer.exactly_once.counters` has the variables, and what they prove.
"""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from pipeline import errors
from trainer.checkpoints import checkpoint_files
from trainer.input import epoch_order

# The variables in every checkpoint, over all epochs: records applied, `[blocks]` int32, the highest
# place among those applied or dropped because their gradients came late, `[blocks]` int32, and how
# many of both each reader was handed, `[MOST_READERS]` int64.
APPLIED = "input/applied"
REACHED = "input/reached"
READERS = "input/readers"
# And whose counts they are, a scalar int64: `Blocks.identity` in the lower 60 bits, `FORMAT` above.
IDENTITY = "input/identity"
# The version of what the variables mean. Raise it with any change by which older checkpoints would
# be read wrong: they can then be resumed with an epoch's start only. Every number has a golden
# checkpoint, see tests/golden/README.md.
FORMAT = 0
_IDENTITY_BITS = 60
# The same in every checkpoint, so that any number of processes can resume from it. Ranks beyond it
# are counted with others.
MOST_READERS = 1024


@dataclasses.dataclass(frozen=True)
class SavedCounts:
    """What has been trained on: `applied` and `reached` are `[blocks]`, `readers` is
    `[MOST_READERS]`, all int64."""

    applied: np.ndarray
    reached: np.ndarray
    readers: np.ndarray

    @property
    def sha256(self) -> str:
        """A hex digest, equal for checkpoints that were trained on the same records of a build, by
        the same `train.seed`, as often."""
        counts = np.stack([self.applied, self.reached]).astype("<i8")
        return hashlib.sha256(counts.tobytes()).hexdigest()


def read_counts(checkpoint: str | None, blocks: epoch_order.Blocks) -> SavedCounts:
    """Returns the counts in a checkpoint; zeros if there is none.

    Raises `DataError` if it has none of this version, or of other records.
    """
    if checkpoint is None:
        zeros = np.zeros(len(blocks.records), np.int64)
        return SavedCounts(zeros, zeros, np.zeros(MOST_READERS, np.int64))
    why = find_mismatch(checkpoint, blocks)
    if why is not None:
        raise errors.DataError(
            f"checkpoint {checkpoint!r}: {why}. Set train.on_new_data=restart_epoch to keep what "
            "it has learned and begin an epoch, restore the records it was trained on, or choose a "
            "new RUN="
        )
    with checkpoint_files.open_checkpoint(checkpoint) as saved:
        return SavedCounts(*(saved.read(n).astype(np.int64) for n in (APPLIED, REACHED, READERS)))


def find_mismatch(checkpoint: str, blocks: epoch_order.Blocks) -> str | None:
    """Returns why the counts in a checkpoint are not of these records, `None` if they are. Raises
    `DataError` for a checkpoint that cannot be read."""
    names = (APPLIED, REACHED, READERS, IDENTITY)
    with checkpoint_files.open_checkpoint(checkpoint) as saved:
        missing = [name for name in names if name not in saved]
        if missing:
            return f"does not say which records it was trained on ({', '.join(missing)} missing)"
        found = {name: saved.read(name) for name in names}
    for name, wanted in build_unread(blocks).items():
        if found[name].dtype != wanted.dtype or found[name].ndim != wanted.ndim:
            return f"has a ledger of another kind ({_describe_kind(name, found[name])})"
    marked = int(found[IDENTITY])
    if marked >> _IDENTITY_BITS != FORMAT:
        return (
            f"has a ledger of format {marked >> _IDENTITY_BITS}, of another version of this "
            f"project; this one reads format {FORMAT}"
        )
    if marked != compute_mark(blocks):
        return "was trained on other records than there are now"
    for name, wanted in build_unread(blocks).items():
        if found[name].shape != wanted.shape:
            return f"has a ledger of another shape ({_describe_kind(name, found[name])})"
    return None


def _describe_kind(name: str, values: np.ndarray) -> str:
    return f"{name} is {values.dtype} {list(values.shape)}"


def compute_mark(blocks: epoch_order.Blocks) -> int:
    """Returns the value of `IDENTITY` for these records."""
    return FORMAT << _IDENTITY_BITS | blocks.identity


def build_unread(blocks: epoch_order.Blocks) -> dict[str, np.ndarray]:
    """Returns the values, by variable, of a checkpoint that has been trained on none of them."""
    zeros = np.zeros(len(blocks.records), np.int32)
    return {
        APPLIED: zeros,
        REACHED: zeros,
        READERS: np.zeros(MOST_READERS, np.int64),
        IDENTITY: np.array(compute_mark(blocks), np.int64),
    }
