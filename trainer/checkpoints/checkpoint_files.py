"""Reading checkpoints with errors that say what happened.

Estimator takes a checkpoint that it cannot read for none, and starts from step 0
(docs/tensorflow-pitfalls.md#global-step-read-as-zero).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator

from pipeline import errors, storage
from pipeline.runs import fallbacks, resuming, run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import scratch
from trainer.checkpoints import bundle, checkpoint_list, traces

# In the run folder: a copy of the checkpoint that is being evaluated.
_PINNED = "pinned"
_GLOBAL_STEP = "global_step"  # GraphKeys.GLOBAL_STEP
_LACKING = re.compile(r"\bKey (\S+) not found in checkpoint")
_POLL, _PATIENCE = 0.5, 30.0  # seconds
_TOLD = 2  # damaged checkpoints that an error names


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
    """Returns what `find` does, proved to be whole; of the newest see `find_whole`. Raises
    `DataError` if one is damaged."""
    if wanted is None:
        return [find_whole(model_dir)]
    found = find(model_dir, wanted)
    for path in found:
        problem = find_problem(path)
        if problem is not None and wanted == "all" and not storage.exists(f"{path}.index"):
            return find_intact(model_dir, wanted)  # deleted meanwhile, for a newer one
        if problem is not None:
            others = find_existing(model_dir).items()
            whole = [step for step, other in others if other != path and not find_problem(other)]
            instead = f"Take another with --checkpoint: {', '.join(whole)}"
            instead = instead if whole else "No other is whole; choose a new RUN="
            raise errors.DataError(f"checkpoint {path!r}: is damaged ({problem}). {instead}")
    return found


def find_whole(model_dir: str, *, contents: bool = True) -> str:
    """Returns the newest checkpoint that is whole, as training would continue from it. Warns of
    those that are passed over. Without `contents` looks at sizes alone.

    Raises `UsageError` if the run has not saved any, and `DataError` if none is whole.
    """
    listed, newest = checkpoint_list.read(model_dir), traces.find_saved(model_dir)
    kept, damaged = choose(model_dir, contents=contents)
    if damaged and checkpoint_list.read(model_dir) != listed:
        return find_whole(model_dir, contents=contents)  # a newer one was saved meanwhile
    if not kept:
        raise build_lost_error(model_dir, damaged) or build_missing_error(RunFolder(model_dir))
    passed = [f"checkpoint {path!r} is damaged ({damaged[path]})" for path in damaged]
    given_up = [one.newest for one in fallbacks.read(RunFolder(model_dir))]
    if not passed and traces.read_step(kept[0]) < newest and newest not in given_up:
        passed = [f"the checkpoint of step {newest:,} in {model_dir!r} is gone"]
    for line in passed:
        print(f"warning: {line}; taking {kept[0]!r}", file=sys.stderr)
    return kept[0]


def find(model_dir: str, wanted: str | None) -> list[str]:
    """Returns the newest checkpoint, or that of a step, or the `best`, or `all` that are still
    there. Raises `UsageError` if there is none, and `DataError` if they are lost.

    Asynchronous workers train while one is saved: it may hold a later step than it is named after.
    """
    if wanted == "best":
        return [_find_best(model_dir)]
    kept = find_existing(model_dir)
    if not kept:
        raise build_lost_error(model_dir, {}) or build_missing_error(RunFolder(model_dir))
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


def find_existing(model_dir: str) -> dict[str, str]:
    """Returns the checkpoints that are still there by the step in their name, the oldest first: of
    the list, or if it names none of those that are there, all."""
    listed = [p for p in checkpoint_list.read(model_dir) if storage.exists(f"{p}.index")]
    return {path.rpartition("-")[2]: path for path in reversed(listed or _scan_folder(model_dir))}


def _find_best(model_dir: str) -> str:
    run = RunFolder(model_dir)
    best = run.read(run_folder.BEST) or (run.read(run_folder.RESULT) or {}).get("best") or {}
    path = best.get("checkpoint")
    if path is None or not storage.exists(storage.join(model_dir, f"{path}.index")):
        if storage.exists(storage.join(model_dir, run_folder.RESULT)):
            raise errors.UsageError(
                f"run {run.name!r}: has ended, and its best checkpoint "
                f"{'was not kept' if path is None else f'{path!r} is gone'}; take another"
            )
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
        ) from reason


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
    (docs/tensorflow-pitfalls.md#checkpoints-deleted-while-read); returns its path prefix there,
    where TensorFlow finds it. Never overwrites another checkpoint of that name: the copy is in a
    folder below then. Raises `FileNotFoundError` if it is gone."""
    source, _, name = checkpoint.rpartition("/")
    kept = storage.join(folder, name)
    if storage.exists(f"{kept}.index"):
        made = compute_digest(checkpoint)
        if compute_digest(kept) != made:
            folder = storage.join(folder, made[:12])
        elif find_problem(kept) is None:
            _await_listing(kept)
            return kept
    kept = storage.join(folder, name)
    storage.remove(f"{kept}.index")  # of a copy that is damaged
    storage.makedirs(folder)
    for file in _list_files(checkpoint):
        storage.copy(storage.join(source, file), storage.join(folder, file))
    _await_listing(kept)
    return kept


def keep_only(checkpoint: str, folder: str) -> None:
    """Removes all other checkpoints from `folder`, in which or below which this one is kept."""
    own, _, name = checkpoint.rpartition("/")
    for index in storage.glob(storage.join(folder, "**", "*.index")):
        if index != f"{checkpoint}.index":  # first: without it the rest is not a checkpoint
            storage.remove(index)
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


def _scan_folder(model_dir: str) -> list[str]:
    """Returns the checkpoints there are if the list of them is missing or cannot be read, the
    newest first: TensorFlow would take that for none."""
    names = [re.fullmatch(r"(model\.ckpt-(\d+))\.index", n) for n in storage.listdir(model_dir)]
    found = sorted((int(match[2]), match[1]) for match in names if match)
    return [storage.join(model_dir, name) for _, name in reversed(found)]


def choose(
    model_dir: str,
    *,
    finite: bool = False,
    contents: bool = True,
    progress: bundle.Progress | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Returns the checkpoints to continue from, and what is wrong with those that are passed over.

    The first one is whole, by `find_problem`; those after it are older and have not been read.
    Only if there is none in the list is one taken that is beside it: TensorFlow would take a list
    that is missing for no checkpoints. Changes nothing.
    """
    damaged: dict[str, str] = {}
    listed = checkpoint_list.read(model_dir)
    for candidates in (listed, [p for p in _scan_folder(model_dir) if p not in listed]):
        for at, path in enumerate(candidates):
            problem = find_problem(path, finite=finite, contents=contents, progress=progress)
            if problem is None:
                return candidates[at:], damaged
            damaged[path] = problem
    return [], damaged


def build_lost_error(model_dir: str, damaged: dict[str, str]) -> errors.DataError | None:
    """Returns the error for a run in which no checkpoint is whole, or `None` if it has saved none:
    a first save, of step 0, may have been cut off, and nothing is lost with it."""
    step, witness = traces.find_trained(model_dir)
    # TensorFlow writes `.meta` after the list.
    saved = storage.exists(storage.join(model_dir, checkpoint_list.FILE_NAME)) or any(
        name.endswith(".meta") for name in storage.listdir(model_dir)
    )
    if damaged and (saved or step > 0):
        told = [f"checkpoint {p!r} is damaged ({damaged[p]})" for p in list(damaged)[:_TOLD]]
        if (more := len(damaged) - _TOLD) > 0:
            told.append(f"so {'are' if more > 1 else 'is'} {more} more")
        return errors.DataError(
            f"{'; '.join(told)}, and there is no other in {model_dir!r}. Choose a new RUN="
        )
    if step > 0:
        return errors.DataError(
            f"{model_dir!r}: has no model.ckpt-*.index, though {witness} tells of step {step:,}: "
            "its checkpoints are lost. Bring their files back, or choose a new RUN="
        )
    return None


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
def pin(checkpoint: str, *, below: str = "") -> Iterator[str]:
    """Yields a copy of a checkpoint that its writer does not delete; several at once are each
    `below` another folder.
    (docs/tensorflow-pitfalls.md#checkpoints-deleted-while-read).

    On a disk the data is not copied, but linked; of one on gs:// the copy is on this machine.
    Raises `FileNotFoundError` if the checkpoint is gone, or rewritten: after a rollback the same
    step is saved again.
    """
    folder, _, name = checkpoint.rpartition("/")
    if storage.is_remote(folder):
        place = scratch.folder(_PINNED)
    else:
        place = _make_folder(storage.join(folder, _PINNED, *filter(None, [below])))
    with place as target:
        files = _list_files(checkpoint)
        before = _read_versions(folder, files)
        for file in files:
            hold(storage.join(folder, file), storage.join(target, file))
        if _read_versions(folder, files) != before:
            raise FileNotFoundError(checkpoint)
        yield storage.join(target, name)


def unpin(model_dir: str) -> None:
    """Removes the copy that `pin` has left if its process was killed."""
    storage.remove(storage.join(model_dir, _PINNED))


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
    listed = [file for file in storage.listdir(folder) if file.startswith(f"{name}.")]
    index = f"{name}.index"
    if not storage.exists(storage.join(folder, index)):
        raise FileNotFoundError(checkpoint)
    # A listing of gs:// may be older than a file; the index is written last, and names the parts.
    parts = bundle.Bundle(checkpoint).parts if storage.is_remote(folder) else []
    return [*sorted({*listed, *parts} - {index}), index]


def _read_versions(folder: str, files: list[str]) -> list[tuple[int, float]]:
    paths = [storage.join(folder, file) for file in files]
    return [(storage.size(path), storage.get_modified_time(path)) for path in paths]


def hold(source: str, target: str) -> None:
    """Data is linked if that can be: its writer replaces the file. An index is written in place."""
    if ".data-" in source and not storage.is_remote(source):
        with contextlib.suppress(OSError, NotImplementedError):
            os.link(source, target)
            return
    storage.copy(source, target)


def find_missing_variable(error: Exception) -> str | None:
    """Returns the variable that a checkpoint lacks, if an error of TensorFlow says so, which says
    something else of a checkpoint that is gone."""
    found = _LACKING.search(str(error))
    return None if found is None else found[1]
