"""What a run's files tell of checkpoints that were saved, also if these are gone.

TensorFlow takes a folder without checkpoints for a run that has not begun.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from pipeline import errors, storage
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_list

# What the chief lists each save in, for the evaluator: {"steps": [int]}.
_SAVED = "saved.json"
# A file of a checkpoint: the checkpoint's name, its step, and whether it is the last to be written.
PART = re.compile(r"(model\.ckpt-(\d+))\.(?:index|(meta)|data-\d+-of-\d+)")


def read_step(checkpoint: str) -> int:
    """Returns the step that a checkpoint is named after; 0 of a name without one."""
    step = checkpoint.rpartition("-")[2]
    return int(step) if step.isdecimal() else 0


def find_saved(model_dir: str) -> int:
    """Returns the step that the newest checkpoint which was saved whole is named after, 0 if there
    was none: by the list, and by what is written after that."""
    return max(_list_saved(model_dir), default=(0, ""))[0]


def find_trained(model_dir: str) -> tuple[int, str]:
    """Returns the last step that a file of the run tells of, and the name of that file; 0 and
    nothing if none does."""
    found = [*_list_saved(model_dir), *_list_trained(model_dir)]
    return max(((step, name) for step, name in found if step > 0), default=(0, ""))


def _list_saved(model_dir: str) -> Iterator[tuple[int, str]]:
    for path in checkpoint_list.read(model_dir):
        yield read_step(path), checkpoint_list.FILE_NAME
    for step in _read(model_dir, _SAVED).get("steps", []):
        yield step, _SAVED
    for name in storage.listdir(model_dir):
        if (part := PART.fullmatch(name)) and part[3]:
            yield int(part[2]), name


def _list_trained(model_dir: str) -> Iterator[tuple[int, str]]:
    for name in storage.listdir(model_dir):
        if part := PART.fullmatch(name):
            yield int(part[2]), name
    for name, key in (
        (run_folder.BEST, "step"),
        (run_folder.TRAINING_DONE, "final_step"),
        (run_folder.RESULT, "final_step"),
    ):
        step = _read(model_dir, name).get(key)
        if isinstance(step, int):
            yield step, name


def _read(model_dir: str, name: str) -> dict[str, Any]:
    """Returns a file of the run; one that is damaged tells nothing here."""
    with contextlib.suppress(errors.DataError):
        return RunFolder(model_dir).read(name) or {}
    return {}
