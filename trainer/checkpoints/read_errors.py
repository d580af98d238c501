"""What a failure to read a checkpoint means, of a run that may train meanwhile: training deletes
its old checkpoints (docs/tensorflow-pitfalls.md#checkpoints-deleted-while-read)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pipeline import errors, storage
from trainer.checkpoints import bundle, checkpoint_files

# The op that reads a checkpoint, which TensorFlow names in what it raises.
_RESTORE = "RestoreV2"

Seen = TypeVar("Seen")


class Deleted(errors.RetryableError):
    """A checkpoint was there, and is no longer."""


def find_intact(model_dir: str, wanted: str | None) -> list[str]:
    """Returns what `checkpoint_files.find_intact` does, and raises it. Raises `Deleted` if the one
    that is wanted was deleted while it was looked at."""
    if wanted in (None, "all"):  # of these it takes another
        return checkpoint_files.find_intact(model_dir, wanted)
    with explain(*checkpoint_files.find(model_dir, wanted)):
        return checkpoint_files.find_intact(model_dir, wanted)


@contextlib.contextmanager
def explain(*checkpoints: str) -> Iterator[None]:
    """Turns what is raised while checkpoints are read into `Deleted` if one is gone, and what is
    raised of one that is damaged into a `DataError` that says what to do."""
    try:
        yield
    except Exception as error:
        if isinstance(error, errors.PipelineError) and not isinstance(error, errors.DataError):
            raise
        for checkpoint in checkpoints:
            if not storage.exists(f"{checkpoint}.index"):
                raise Deleted(
                    f"checkpoint {checkpoint!r}: was deleted while it was read: a run that trains "
                    "keeps the newest train.keep_checkpoints, and the best. Run the same command "
                    "again; if reading takes long, one split at a time"
                ) from error
            unread = _RESTORE in str(error) or isinstance(error.__cause__, bundle.Damaged)
            if unread and (problem := checkpoint_files.find_problem(checkpoint)):
                raise errors.DataError(
                    f"checkpoint {checkpoint!r}: is damaged ({problem}). Take another with "
                    "--checkpoint, or choose a new RUN="
                ) from error
        raise


def visit(
    checkpoints: Sequence[str], wanted: str | None, look: Callable[[str], Seen]
) -> list[Seen]:
    """Returns what `look` does of each checkpoint. Of `all` that are wanted, leaves those out, with
    a warning, that are deleted meanwhile. Raises `Deleted` if none is left, and what `look` does.
    """
    seen, gone = [], None
    for checkpoint in checkpoints:
        try:
            with explain(checkpoint):
                seen.append(look(checkpoint))
        except Deleted as error:
            if wanted != "all":
                raise
            gone = error
            print(
                f"warning: checkpoint {checkpoint!r} was deleted while it was read; it is left out",
                file=sys.stderr,
            )
    if gone is not None and not seen:
        raise gone
    return seen
