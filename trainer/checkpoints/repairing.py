"""What the chief does before training continues: it makes the list of checkpoints begin with one
that is whole (docs/tensorflow-pitfalls.md#interrupted-saves)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

from pipeline import storage
from pipeline.runs import fallbacks
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import bundle, checkpoint_files, checkpoint_list, traces

# In the run folder: checkpoints that could not be restored, and exports of which nothing tells how
# good they are. Nothing deletes them.
DAMAGED = "damaged"


def repair(
    model_dir: str, *, finite: bool = False, progress: bundle.Progress | None = None
) -> str | None:
    """Makes the list of checkpoints begin with one that is whole; and `finite`, if so.

    Those that are passed over are moved to the folder `damaged/`, where nothing deletes them.
    Returns one line about them, or `None` if the newest is whole or there is none. To be called by
    the chief only, before any other process looks at a checkpoint. `progress` is called with
    numbers of bytes read.

    Raises `DataError` if the run has trained and none can be used: training would begin again, as
    it does after a first save that was cut off; and `RetryableError`, with nothing changed, if one
    cannot be read now.
    """
    listed = checkpoint_list.read(model_dir)
    newest = traces.find_saved(model_dir)
    kept, damaged = checkpoint_files.choose(model_dir, finite=finite, progress=progress)
    if not kept:
        if error := checkpoint_files.build_lost_error(model_dir, damaged):
            raise error
        lines = _set_all_aside(damaged)
        return f"{'; '.join(lines)}; starting from step 0" if lines else None
    _note_fallback(model_dir, kept[0], newest)
    if kept == listed and checkpoint_list.is_relative(model_dir):
        return None
    if damaged or not listed:
        # What was not read yet must at least have all its files, or it could not be listed.
        problems = {path: checkpoint_files.find_problem(path, contents=False) for path in kept[1:]}
        damaged |= {path: problem for path, problem in problems.items() if problem is not None}
    is_there = storage.exists(storage.join(model_dir, checkpoint_list.FILE_NAME))
    what = "damaged" if is_there else "missing"
    lines = [] if listed else [f"the list of checkpoints in {model_dir!r} was {what}"]
    lines += _set_all_aside(damaged)
    checkpoint_list.write(model_dir, [path for path in kept if path not in damaged])
    step = checkpoint_files.read_current_step(model_dir)
    return f"{'; '.join(lines)}; continuing from step {step}" if lines else None


def _note_fallback(model_dir: str, checkpoint: str, newest: int) -> None:
    """Notes for the ledger if training continues from a checkpoint before the `newest` step that
    was saved."""
    if (step := traces.read_step(checkpoint)) < newest:
        fallback = fallbacks.Fallback(step=step, newest=newest, time=time.time())
        fallbacks.add(RunFolder(model_dir), fallback)


def _set_all_aside(damaged: dict[str, str]) -> list[str]:
    """Moves damaged checkpoints to `damaged/`; returns a clause about each, with its problem."""
    return [f"checkpoint {p!r} is damaged ({damaged[p]}){_set_aside(p)}" for p in damaged]


def _set_aside(checkpoint: str) -> str:
    """Moves what there is of a checkpoint to `damaged/`; returns what to say of it."""
    folder, _, name = checkpoint.rpartition("/")
    # The index first: without it the rest is not a checkpoint any more, if this is interrupted.
    files = [file for file in storage.listdir(folder) if file.startswith(f"{name}.")]
    if not files:
        return ""
    files.sort(key=lambda file: not file.endswith(".index"))
    kept = set_aside(folder, name, {storage.join(folder, file): file for file in files})
    return f", and was moved to {kept!r}"


def set_aside(model_dir: str, name: str, files: Mapping[str, str]) -> str:
    """Moves `files` in order, by where each comes below, to a new folder `name` in `damaged/` of a
    run; returns its path."""
    used = storage.listdir(storage.join(model_dir, DAMAGED))
    free = next(n for n in itertools.count() if (f"{name}.{n}" if n else name) not in used)
    kept = storage.join(model_dir, DAMAGED, f"{name}.{free}" if free else name)
    for source, below in files.items():
        target = storage.join(kept, below)
        storage.makedirs(storage.parent(target))
        storage.move(source, target)
    return kept
