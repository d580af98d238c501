"""What failures of TensorFlow mean: for the exit code, and for the status of the process."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from pipeline import errors
from pipeline.processes import signals
from pipeline.storage import gcs_errors
from trainer.checkpoints import checkpoint_files
from trainer.distribution import session_manager
from trainer.input import damaged
from trainer.input.dataset import RecordDataset
from trainer.monitoring.status_reporter import Reporter

# What TensorFlow raises of a file whose content is not what was written, or ends early.
_CUT_OR_ALTERED = (tf.errors.DataLossError, tf.errors.OutOfRangeError)


@contextlib.contextmanager
def report_failures(reporter: Reporter) -> Iterator[None]:
    """Turns TensorFlow's failures into ours, and leaves the last word in the status file."""
    try:
        try:
            yield
        except Exception as error:
            raise _translate(error) from error
    except errors.PipelineError as error:
        asked = isinstance(error, errors.RetryableError) and signals.stop_requested.is_set()
        state = "stopped" if asked else "failed"
        reporter.report(state, error=str(error), exit_code=error.exit_code)
        raise
    except KeyboardInterrupt:
        reporter.report("stopped", error="stopped", exit_code=errors.RetryableError.exit_code)
        raise
    except Exception as error:
        reporter.report(
            "failed", error=errors.describe(error), exit_code=1, **reporter.describe_reached()
        )
        raise


@contextlib.contextmanager
def translate_reading(records: RecordDataset) -> Iterator[None]:
    """Turns TensorFlow's failures into ours in a command that reads the records of a run; those
    that are damaged are named."""
    try:
        yield
    except Exception as error:
        raise _translate(damaged.explain(error, records)) from error


def _translate(error: Exception) -> Exception:
    of_storage = (
        gcs_errors.translate_tensorflow_error(error)
        if isinstance(error, tf.errors.OpError)
        else None
    )
    known = (
        of_storage
        if isinstance(of_storage, errors.PipelineError)
        else errors.translate_disk_error(error)
    )
    if known is not None:
        return known
    if (variable := checkpoint_files.find_missing_variable(error)) is not None:
        return errors.ModelError(
            f"the checkpoint lacks the variable {variable!r}, which model_fn makes in one mode "
            "only, or did not make when the checkpoint was saved; its variables must have the same "
            "names in every mode. Fix it, and choose a new RUN="
        )
    first_line = errors.find_first_line(error)
    if isinstance(error, _CUT_OR_ALTERED) and getattr(error.op, "type", "") == "RestoreV2":
        return errors.RetryableError(
            f"a checkpoint is damaged: {first_line}. Run the same command again: if it is one of "
            "this run, training continues from an older one"
        )
    kinds: list[tuple[Any, type[errors.PipelineError], str]] = [
        (tf.estimator.NanLossDuringTrainingError, errors.ModelError, "the loss is not a number"),
        (tf.errors.DataLossError, errors.DataError, "a record is damaged"),
        (tf.errors.ResourceExhaustedError, errors.RetryableError, "out of memory or disk"),
    ]
    if isinstance(error, session_manager.LOST_PEER):
        return session_manager.build_lost_peer_error(error)
    for kind, ours, meaning in kinds:
        if isinstance(error, kind):
            return ours(f"{meaning}: {first_line}")
    if isinstance(error, tf.errors.OpError) and (lost := errors.translate_lost_storage(error)):
        return lost
    if isinstance(error, FileNotFoundError):  # one that was to be read
        place, said = error.filename or str(error), os.strerror(errno.ENOENT)
        return errors.DataError(
            f"cannot open {place!r}: {said}. Bring it back, then run the same command again"
        )
    if isinstance(error, OSError):
        return errors.translate_os_error(error, f"cannot access {error.filename!r}")
    return error
