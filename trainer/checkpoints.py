"""Reading checkpoints with errors that say what happened (traps A11)."""

from __future__ import annotations

import tensorflow as tf

from pipeline import errors


def newest(model_dir: str) -> str | None:
    """Returns the path prefix of the newest checkpoint, or `None` if there is none."""
    path = tf.train.latest_checkpoint(model_dir)
    return None if path is None else str(path)


def step_of(checkpoint: str) -> int:
    """Returns the global step stored in a checkpoint. Raises `DataError` if it cannot be read."""
    try:
        return int(tf.train.load_variable(checkpoint, tf.compat.v1.GraphKeys.GLOBAL_STEP))
    except (tf.errors.OpError, ValueError, IndexError) as error:  # IndexError: data cut short
        reason = str(error).splitlines()[0]
        raise errors.DataError(
            f"checkpoint {checkpoint!r}: cannot be read ({reason}). Remove it, or choose a new RUN="
        ) from None


def current_step(model_dir: str) -> int:
    """Returns the step training would go on from: that of the newest checkpoint, or 0.

    Raises `DataError` if there should be one that cannot be read: TensorFlow would begin again.
    """
    checkpoint = newest(model_dir)
    if checkpoint is not None:
        return step_of(checkpoint)
    state = tf.train.get_checkpoint_state(model_dir)
    if state is not None and state.model_checkpoint_path:
        raise errors.DataError(
            f"checkpoint {state.model_checkpoint_path!r}: is gone, though the list of checkpoints "
            f"in {model_dir!r} names it. Remove that list, 'checkpoint', or choose a new RUN="
        )
    return 0
