"""Reading checkpoints with errors that say what happened.

Estimator takes a checkpoint that it cannot read for none, and starts from step 0
(docs/tensorflow-pitfalls.md#global-step-read-as-zero).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterator

from pipeline import errors, storage
from pipeline.runs import resuming, run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import scratch
from trainer.checkpoints import bundle, checkpoint_list

# In the run folder: checkpoints that could not be restored. Nothing deletes them.
DAMAGED = "damaged"
_GLOBAL_STEP = "global_step"  # GraphKeys.GLOBAL_STEP
_LACKING = re.compile(r"\bKey (\S+) not found in checkpoint")
_POLL, _PATIENCE = 0.5, 30.0  # seconds


def find_newest(model_dir: str) -> str | None:
    """Returns the path prefix of the newest checkpoint, or `None` if there is none.

    Raises `RetryableError` if the list of checkpoints cannot be read now.
    """
    for path in checkpoint_list.read(model_dir):
        if storage.exists(f"{path}.index"):
            return path
        if not storage.is_remote(model_dir):
            return None
    return None


def find_intact(model_dir: str, wanted: str | None) -> list[str]:
    """Returns what `find` does, proved to be whole. Raises `DataError` if one is damaged."""
    found = find(model_dir, wanted)
    for path in found:
        problem = find_problem(path)
        if problem is not None and wanted in (None, "all") and not storage.exists(f"{path}.index"):
            return find_intact(model_dir, wanted)  # deleted meanwhile, for a newer one
        if problem is not None:
            raise errors.DataError(
                f"checkpoint {path!r}: is damaged ({problem}). Remove it, or take another with "
                f"--checkpoint; there are {', '.join(_find_existing(model_dir))}"
            )
    return found


def find(model_dir: str, wanted: str | None) -> list[str]:
    """Returns the newest checkpoint, or that of a step, or the `best`, or `all` that are still
    there. Raises `UsageError` if there is none.

    Asynchronous workers train while one is saved: it may hold a later step than it is named after.
    """
    if wanted == "best":
        return [_find_best(model_dir)]
    kept = _find_existing(model_dir)
    if not kept:
        raise build_missing_error(RunFolder(model_dir))
    if wanted is None:
        return list(kept.values())[-1:]
    if wanted == "all":
        return list(kept.values())
    if wanted not in kept and wanted.isdecimal():
        kept = {str(read_step(path)): path for path in kept.values()}
    if wanted not in kept:
        raise errors.UsageError(
            f"--checkpoint {wanted!r}: must be best, all or one of {', '.join(kept)}"
        )
    return [kept[wanted]]


def build_missing_error(run: RunFolder) -> errors.UsageError:
    """Returns the error for a run without checkpoints."""
    return errors.UsageError(
        f"run {run.name!r}: has no checkpoint yet; train it with {resuming.command(run)}"
    )


def _find_existing(model_dir: str) -> dict[str, str]:
    """Returns the checkpoints that are still there by the step in their name, the oldest first."""
    listed = reversed(checkpoint_list.read(model_dir))
    there = [path for path in listed if storage.exists(f"{path}.index")]
    return {path.rpartition("-")[2]: path for path in there}


def _find_best(model_dir: str) -> str:
    run = RunFolder(model_dir)
    path = (run.read(run_folder.BEST) or {}).get("checkpoint")
    if path is None or not storage.exists(storage.join(model_dir, f"{path}.index")):
        raise errors.UsageError(
            f"run {run.name!r}: has kept no best checkpoint yet; let it finish with "
            f"{resuming.command(run)}"
        )
    return storage.join(model_dir, path)


@contextlib.contextmanager
def open_checkpoint(checkpoint: str) -> Iterator[bundle.Bundle]:
    """Opens a checkpoint to read single variables of it.

    Raises `DataError` if it is damaged, also from within the block, and `RetryableError` if it
    cannot be read now.
    """
    try:
        yield bundle.Bundle(checkpoint)
    except bundle.Damaged as reason:
        raise errors.DataError(
            f"checkpoint {checkpoint!r}: cannot be read ({reason}). Remove it, or choose a new RUN="
        ) from None


def read_step(checkpoint: str) -> int:
    """Returns the global step stored in a checkpoint. Raises what `open_checkpoint` does."""
    _await_listing(checkpoint)
    name = _GLOBAL_STEP
    with open_checkpoint(checkpoint) as saved:
        if name not in saved:
            raise bundle.Damaged(f"it has no {name}")
        return int(saved.read(name))


def _await_listing(checkpoint: str) -> None:
    """On gs:// TensorFlow finds the files of a checkpoint in a listing, which may be late: waits
    until they are in it."""
    if not storage.is_remote(checkpoint):
        return
    import tensorflow as tf

    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and storage.exists(f"{checkpoint}.index"):
        with contextlib.suppress(tf.errors.OpError, ValueError):
            tf.train.load_checkpoint(checkpoint)
            return
        time.sleep(_POLL)


def read_current_step(model_dir: str) -> int:
    """Returns the step training would resume from: that of the newest checkpoint, or 0.

    Raises `DataError` if there should be one that cannot be read: TensorFlow would begin again.
    """
    checkpoint = find_newest(model_dir)
    if checkpoint is not None:
        return read_step(checkpoint)
    listed = checkpoint_list.read(model_dir)
    if listed:
        raise errors.DataError(
            f"checkpoint {listed[0]!r}: is gone, though the list of checkpoints in {model_dir!r} "
            "names it. Remove that list, 'checkpoint', or choose a new RUN="
        )
    return 0


def compute_digest(checkpoint: str) -> str:
    """Returns the SHA-256 of a checkpoint's index, which has a checksum of every tensor: equal for
    copies, different for the same step saved again with other parameters. Raises
    `FileNotFoundError` if it is gone."""
    with storage.open_file(f"{checkpoint}.index") as file:
        return hashlib.sha256(file.read()).hexdigest()


def keep(checkpoint: str, folder: str) -> str:
    """Copies a checkpoint to `folder`, where nothing deletes it
    (docs/tensorflow-pitfalls.md#checkpoints-deleted-while-read); returns its path prefix there.
    Never overwrites another checkpoint of that name: the copy is in a folder below then. Raises
    `FileNotFoundError` if it is gone."""
    source, _, name = checkpoint.rpartition("/")
    if storage.exists(storage.join(folder, f"{name}.index")):
        made = compute_digest(checkpoint)
        if compute_digest(storage.join(folder, name)) == made:
            return storage.join(folder, name)
        folder = storage.join(folder, made[:12])
    storage.makedirs(folder)
    for file in _list_files(checkpoint):
        storage.copy(storage.join(source, file), storage.join(folder, file))
    return storage.join(folder, name)


def keep_only(checkpoint: str, folder: str) -> None:
    """Removes all other checkpoints from `folder`, in which or below which this one is kept."""
    own, _, name = checkpoint.rpartition("/")
    for file in storage.listdir(folder):
        path = storage.join(folder, file)
        if path != own and not (own == folder and file.startswith(f"{name}.")):
            storage.remove(path)


def keep_finite(model_dir: str, name: str) -> str | None:
    """Keeps the newest checkpoint whose values are all finite in the folder `name` below; returns
    its path prefix there, or `None` if there is none."""
    for path in checkpoint_list.read(model_dir):
        if find_problem(path, finite=True) is None:
            return keep(path, storage.join(model_dir, name))
    return None


def repair(
    model_dir: str, *, finite: bool = False, progress: bundle.Progress | None = None
) -> str | None:
    """Makes the list of checkpoints begin with one that is whole
    (docs/tensorflow-pitfalls.md#interrupted-saves); and `finite`, if so.

    Those that are passed over are moved to the folder `damaged/`, where nothing deletes them.
    Returns one line about them, or `None` if the newest is whole or there is none. To be called by
    the chief only, before any other process looks at a checkpoint. `progress` is called with
    numbers of bytes read.

    Raises `DataError` if there are some and none can be used: training would begin again, as it
    does after a first save that was cut off; and `RetryableError`, with nothing changed, if one
    cannot be read now.
    """
    listed = checkpoint_list.read(model_dir)
    candidates = listed or _scan_folder(model_dir)
    damaged: dict[str, str] = {}
    for path in candidates:
        problem = find_problem(path, finite=finite, progress=progress)
        if problem is None:
            break
        damaged[path] = problem
    if len(damaged) == len(candidates):
        if damaged and _has_saved(model_dir):
            every = "; ".join(f"checkpoint {p!r} is damaged ({damaged[p]})" for p in damaged)
            raise errors.DataError(
                f"{every}, and there is no other in {model_dir!r}. Choose a new RUN="
            )
        lines = _set_all_aside(damaged)
        return f"{'; '.join(lines)}; starting from step 0" if lines else None
    if listed and not damaged and checkpoint_list.is_relative(model_dir):
        return None
    # What was not read yet must at least have all its files, or it could not be listed.
    for path in candidates[len(damaged) + 1 :]:
        if (problem := find_problem(path, contents=False)) is not None:
            damaged[path] = problem
    what = "damaged" if _has_list(model_dir) else "missing"
    lines = [] if listed else [f"the list of checkpoints in {model_dir!r} was {what}"]
    lines += _set_all_aside(damaged)
    checkpoint_list.write(model_dir, [path for path in candidates if path not in damaged])
    return (
        f"{'; '.join(lines)}; continuing from step {read_current_step(model_dir)}"
        if lines
        else None
    )


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
    used = storage.listdir(storage.join(folder, DAMAGED))
    free = next(n for n in itertools.count() if (f"{name}.{n}" if n else name) not in used)
    kept = storage.join(folder, DAMAGED, f"{name}.{free}" if free else name)
    storage.makedirs(kept)
    for file in sorted(files, key=lambda file: not file.endswith(".index")):
        storage.move(storage.join(folder, file), storage.join(kept, file))
    return f", and was moved to {kept!r}"


def _scan_folder(model_dir: str) -> list[str]:
    """Returns the checkpoints there are if the list of them is missing or cannot be read, the
    newest first: TensorFlow would take that for none."""
    names = [re.fullmatch(r"(model\.ckpt-(\d+))\.index", n) for n in storage.listdir(model_dir)]
    found = sorted((int(match[2]), match[1]) for match in names if match)
    return [storage.join(model_dir, name) for _, name in reversed(found)]


def _has_list(model_dir: str) -> bool:
    return storage.exists(storage.join(model_dir, checkpoint_list.FILE_NAME))


def _has_saved(model_dir: str) -> bool:
    """True if a save has ever got as far as the list: TensorFlow writes `.meta` after it."""
    return _has_list(model_dir) or any(n.endswith(".meta") for n in storage.listdir(model_dir))


def find_problem(
    checkpoint: str,
    *,
    finite: bool = False,
    contents: bool = True,
    progress: bundle.Progress | None = None,
) -> str | None:
    """Returns the proof that a checkpoint cannot be restored, or is not `finite` where it has to
    be; `None` if it can. Reads all of it, or sizes alone without `contents`."""
    try:
        bundle.Bundle(checkpoint).check(finite=finite, contents=contents, progress=progress)
    except bundle.Damaged as proof:
        return str(proof)
    return None


@contextlib.contextmanager
def pin(checkpoint: str) -> Iterator[str]:
    """Yields a copy of a checkpoint that its writer does not delete
    (docs/tensorflow-pitfalls.md#checkpoints-deleted-while-read).

    On a disk the data is not copied, but linked; of one on gs:// the copy is on this machine.
    Raises `FileNotFoundError` if the checkpoint is gone, or rewritten: after a rollback the same
    step is saved again.
    """
    folder, _, name = checkpoint.rpartition("/")
    if storage.is_remote(folder):
        place = scratch.folder("pinned")
    else:
        place = _make_folder(storage.join(folder, "pinned"))
    with place as target:
        files = _list_files(checkpoint)
        before = _read_versions(folder, files)
        for file in files:
            hold(storage.join(folder, file), storage.join(target, file))
        if _read_versions(folder, files) != before:
            raise FileNotFoundError(checkpoint)
        yield storage.join(target, name)


@contextlib.contextmanager
def _make_folder(folder: str) -> Iterator[str]:
    """Yields a folder that is made new, and removes it afterwards."""
    storage.remove(folder)
    storage.makedirs(folder)
    try:
        yield folder
    finally:
        storage.remove(folder)


def _list_files(checkpoint: str) -> list[str]:
    """Returns the names of a checkpoint's files, the index last: with it a copy is whole."""
    folder, _, name = checkpoint.rpartition("/")
    files = [file for file in storage.listdir(folder) if file.startswith(f"{name}.")]
    if (index := f"{name}.index") not in files:
        # A listing may be older than a file; the index is written last, so the parts are there.
        if not files or not storage.exists(storage.join(folder, index)):
            raise FileNotFoundError(checkpoint)
        files.append(index)
    return sorted(files, key=lambda file: file.endswith(".index"))


def _read_versions(folder: str, files: list[str]) -> list[tuple[int, float]]:
    paths = [storage.join(folder, file) for file in files]
    return [(storage.size(path), storage.get_modified_time(path)) for path in paths]


def hold(source: str, target: str) -> None:
    """Data is linked if that can be: its writer replaces the file. An index is written in place."""
    if ".data-" in source and not storage.is_remote(source):
        with contextlib.suppress(PermissionError, NotImplementedError):
            os.link(source, target)
            return
    storage.copy(source, target)


def find_missing_variable(error: Exception) -> str | None:
    """Returns the variable that a checkpoint lacks, if an error of TensorFlow says so, which says
    something else of a checkpoint that is gone."""
    found = _LACKING.search(str(error))
    return None if found is None else found[1]
