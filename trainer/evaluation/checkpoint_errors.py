"""What an error means that is raised while a checkpoint is evaluated: the checkpoint may be
damaged, gone or just being written, or the error is of something else."""

from __future__ import annotations

import tensorflow as tf

from pipeline import errors, storage
from pipeline.console import work
from trainer.checkpoints import checkpoint_files
from trainer.monitoring.status_reporter import Reporter

# What reading a checkpoint raises that is damaged or gone; of data that is cut off, that it is out
# of range.
UNREADABLE = (
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
    tf.errors.OutOfRangeError,
    FileNotFoundError,
    ValueError,
)

# A checkpoint's path prefix and when it was written: after a fall back to an older one the same
# step is saved again.
Version = tuple[str, float]


def read_version(checkpoint: str) -> Version | None:
    """Returns the version of a checkpoint that is there, `None` if it has just been deleted."""
    try:
        return checkpoint, storage.get_modified_time(f"{checkpoint}.index")
    except FileNotFoundError:
        return None


def is_of_other(error: Exception, checkpoint: str, newest: str | None) -> bool:
    """Tells if an error is of something else than reading the checkpoint, such as the user's own
    input or another model."""
    if isinstance(error, FileNotFoundError):  # TensorFlow raises others of a checkpoint
        return storage.exists(f"{checkpoint}.index")
    if isinstance(error, ValueError) and newest == checkpoint:
        return True
    return checkpoint_files.find_missing_variable(error) is not None


def find_problem(checkpoint: str, reporter: Reporter) -> str | None:
    """Returns the proof that a checkpoint is damaged, `None` if it is whole; reports progress."""
    with reporter.count_progress("checking the checkpoint"):
        return checkpoint_files.find_problem(checkpoint, progress=work.advance)


def refuse_damaged(checkpoint: str, reporter: Reporter) -> None:
    """Raises `RetryableError` if a checkpoint is damaged: the chief passes over it when it is
    started again."""
    if (problem := find_problem(checkpoint, reporter)) is not None:
        raise errors.RetryableError(
            f"checkpoint {checkpoint!r}: is damaged ({problem}). Run the same command again: "
            "training continues from an older one"
        )
