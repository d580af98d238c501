"""The list of a run's checkpoints: TensorFlow's file `checkpoint`.

TensorFlow takes a list that it cannot read for no list, and would begin training again; and it
writes absolute paths unless told otherwise, so that a copy of the folder would use the original's
checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf import text_format

from pipeline import errors, storage
from pipeline.storage import patience
from trainer.checkpoints import messages

FILE_NAME = "checkpoint"


def read(model_dir: str) -> list[str]:
    """Returns the listed checkpoints, the newest first, as absolute path prefixes.

    Empty if there is no list, or one that is damaged. Raises `RetryableError` if it cannot be read
    now.
    """
    return [_localize(model_dir, path) for path in _read_paths(model_dir)]


def _localize(model_dir: str, path: str) -> str:
    """Returns where a listed checkpoint is: in the folder of the list, if one of its name is there.
    A list that another program wrote may have absolute paths, of before the folder was moved."""
    found = storage.join(model_dir, path)
    own = storage.join(model_dir, path.rpartition("/")[2])
    return own if found == own or storage.exists(f"{own}.index") else found


def is_relative(model_dir: str) -> bool:
    """Returns whether the list, if there is one, names only checkpoints in its own folder."""
    return not any("/" in path for path in _read_paths(model_dir))


def _read_paths(model_dir: str) -> list[str]:
    """Returns the paths as they are in the list, the newest first."""
    path = storage.join(model_dir, FILE_NAME)
    state = messages.CheckpointState()
    try:
        text_format.Parse(patience.read_patiently(path, lambda: storage.read_text(path)), state)
    except (FileNotFoundError, text_format.ParseError, errors.DataError):
        return []
    if not state.model_checkpoint_path:
        return []
    newest_first = [state.model_checkpoint_path, *reversed(state.all_model_checkpoint_paths)]
    return list(dict.fromkeys(newest_first))


def write(model_dir: str, newest_first: Sequence[str]) -> None:
    """Writes the list, with relative paths of those that are in its folder."""
    names = [path.removeprefix(f"{model_dir}/") for path in newest_first]
    state = messages.CheckpointState(
        model_checkpoint_path=names[0], all_model_checkpoint_paths=reversed(names)
    )
    storage.write_text(storage.join(model_dir, FILE_NAME), text_format.MessageToString(state))
