"""Reading checkpoints with errors that say what happened (traps A11)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import cloud_errors, errors, exported, storage
from pipeline.run_folder import RunFolder

_POLL, _PATIENCE = 0.5, 30.0  # seconds


def newest(model_dir: str) -> str | None:
    """Returns the path prefix of the newest checkpoint, or `None` if there is none."""
    path = tf.train.latest_checkpoint(model_dir)
    if path is None and storage.is_remote(model_dir):
        # TensorFlow looks for its files in a listing; asked for by name they are never late.
        listed = (p for p in _listed(model_dir) if storage.exists(f"{p}.index"))
        path = next(listed, None)
    return None if path is None else str(path)


def chosen(model_dir: str, wanted: str | None) -> list[str]:
    """Returns the newest checkpoint, or that of a step, or the `best`, or `all` that are still
    there. Raises `UsageError` if there is none, `DataError` if one is damaged.

    Asynchronous workers go on while one is saved: it may hold a later step than it is named after.
    """
    there = [path for path in _listed(model_dir) if storage.exists(f"{path}.index")]
    if not there and wanted != "best":
        raise errors.UsageError(f"run {model_dir.rpartition('/')[2]!r}: has no checkpoint yet")
    kept = {path.rpartition("-")[2]: path for path in reversed(there)}
    if wanted not in (None, "best", "all", *kept):
        kept = {str(step_of(path)): path for path in kept.values()}
    if wanted not in (None, "best", "all", *kept):
        raise errors.UsageError(
            f"--checkpoint {wanted!r}: must be best, all or one of {', '.join(kept)}"
        )
    if wanted == "best":
        found = [_best(model_dir)]
    else:
        found = [kept[wanted]] if wanted in kept else list(kept.values())
        found = found[-1:] if wanted is None else found
    for path in found:
        problem = _problem(path, finite=False)
        if problem is not None:
            raise errors.DataError(
                f"checkpoint {path!r}: is damaged ({problem}). Remove it, or take another with "
                f"--checkpoint; there are {', '.join(kept)}"
            )
    return found


def _best(model_dir: str) -> str:
    run = RunFolder(model_dir)
    path = (run.read(exported.BEST) or {}).get("checkpoint")
    if path is None or not storage.exists(storage.join(model_dir, f"{path}.index")):
        raise errors.UsageError(
            f"run {run.name!r}: has kept no best checkpoint yet; let it finish with make train"
        )
    return storage.join(model_dir, path)


def step_of(checkpoint: str) -> int:
    """Returns the global step stored in a checkpoint. Raises `DataError` if it cannot be read."""
    try:
        return int(_reader(checkpoint).get_tensor(tf.compat.v1.GraphKeys.GLOBAL_STEP))
    except (tf.errors.OpError, ValueError, IndexError) as error:  # IndexError: data cut short
        reason = str(error).splitlines()[0]
        raise errors.DataError(
            f"checkpoint {checkpoint!r}: cannot be read ({reason}). Remove it, or choose a new RUN="
        ) from None


def _reader(checkpoint: str) -> Any:
    """Opens a checkpoint. On gs:// TensorFlow finds its files in a listing, which may be late: it
    is asked again."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return tf.train.load_checkpoint(checkpoint)
        except (tf.errors.NotFoundError, ValueError):
            known = storage.is_remote(checkpoint) and storage.exists(f"{checkpoint}.index")
            if not known or time.monotonic() > deadline:
                raise
            time.sleep(_POLL)


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


def digest(checkpoint: str) -> str:
    """Returns the SHA-256 of a checkpoint's index, which has a checksum of every tensor: equal for
    copies, different for the same step saved again with other parameters. Raises
    `FileNotFoundError` if it is gone."""
    with storage.open_file(f"{checkpoint}.index") as file:
        return hashlib.sha256(file.read()).hexdigest()


def keep(checkpoint: str, folder: str) -> str:
    """Copies a checkpoint to `folder`, where nothing deletes it (traps A8); returns its path prefix
    there. Never overwrites another checkpoint of that name: the copy is in a folder below then.
    Raises `FileNotFoundError` if it is gone."""
    source, _, name = checkpoint.rpartition("/")
    if storage.exists(storage.join(folder, f"{name}.index")):
        made = digest(checkpoint)
        if digest(storage.join(folder, name)) == made:
            return storage.join(folder, name)
        folder = storage.join(folder, made[:12])
    storage.makedirs(folder)
    for file in _files(checkpoint):
        _copy(storage.join(source, file), storage.join(folder, file))
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
    for path in _listed(model_dir):
        if _problem(path, finite=True) is None:
            return keep(path, storage.join(model_dir, name))
    return None


def mend(model_dir: str, *, finite: bool = False) -> str | None:
    """Makes the list of checkpoints begin with one that is whole (traps A10); and `finite`, if so.

    Returns one line on what was passed over, or `None` if the newest is whole or there is none.
    Raises `DataError` if there are some and none can be read: training would begin again. To be
    called by the chief only, before any other process looks at a checkpoint.
    """
    candidates = _listed(model_dir)
    damage = [] if candidates else [f"the list of checkpoints in {model_dir!r} was damaged"]
    candidates = candidates or _found(model_dir)
    for position, path in enumerate(candidates):
        problem = _problem(path, finite=finite)
        if problem is None:
            if not damage:
                return None
            rest = reversed(candidates[position:])
            older = [p for p in rest if _problem(p, finite=finite) is None]
            tf.compat.v1.train.update_checkpoint_state(model_dir, path, older)
            return f"{'; '.join(damage)}; going on from step {step_of(path)}"
        damage.append(f"checkpoint {path!r} is damaged ({problem})")
    if candidates:
        raise errors.DataError(
            f"{'; '.join(damage)}, and there is no other in {model_dir!r}. Choose a new RUN="
        )
    return None


def _listed(model_dir: str) -> list[str]:
    """Returns the checkpoints that are listed, the newest first."""
    state = tf.train.get_checkpoint_state(model_dir)
    if state is None or not state.model_checkpoint_path:
        return []
    newest_first = [state.model_checkpoint_path, *reversed(state.all_model_checkpoint_paths)]
    return list(dict.fromkeys(newest_first))


def _found(model_dir: str) -> list[str]:
    """Returns the checkpoints there are if the list of them cannot be read, the newest first:
    TensorFlow would take that for none. Without a list there are none."""
    if not storage.exists(storage.join(model_dir, "checkpoint")):
        return []
    names = [re.fullmatch(r"(model\.ckpt-(\d+))\.index", n) for n in storage.listdir(model_dir)]
    found = sorted((int(match[2]), match[1]) for match in names if match)
    return [storage.join(model_dir, name) for _, name in reversed(found)]


def _problem(checkpoint: str, *, finite: bool) -> str | None:
    """Returns why a checkpoint cannot be restored, or is not `finite` where it has to be. Reads all
    of it: checksums tell of damage. Raises what Cloud Storage refuses, which is none."""
    try:
        reader = _reader(checkpoint)
        for name in reader.get_variable_to_shape_map():
            values = reader.get_tensor(name)
            if finite and values.dtype.kind == "f" and not np.isfinite(values).all():
                return f"{name} is not finite"
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError) as error:
        if isinstance(cloud_errors.of_tensorflow(error), errors.PipelineError):
            raise
        return str(error).splitlines()[0]
    return None


@contextlib.contextmanager
def pinned(checkpoint: str) -> Iterator[str]:
    """Yields a copy of a checkpoint that its writer does not delete (traps A8).

    On a disk the data is not copied, but linked; of one on gs:// the copy is on this machine.
    Raises `FileNotFoundError` if the checkpoint is gone, or written anew: after a rollback the same
    step is saved again.
    """
    folder, _, name = checkpoint.rpartition("/")
    target = storage.join(folder, "pinned")
    if storage.is_remote(target):
        target = os.path.join(tempfile.gettempdir(), f"estimator-pipeline-pinned-{os.getpid()}")
    storage.remove(target)
    storage.makedirs(target)
    try:
        files = _files(checkpoint)
        before = _versions(folder, files)
        for file in files:
            _hold(storage.join(folder, file), storage.join(target, file))
        if _versions(folder, files) != before:
            raise FileNotFoundError(checkpoint)
        yield storage.join(target, name)
    finally:
        storage.remove(target)


def _files(checkpoint: str) -> list[str]:
    """Returns the names of a checkpoint's files, the index last: with it a copy is whole."""
    folder, _, name = checkpoint.rpartition("/")
    files = [file for file in storage.listdir(folder) if file.startswith(f"{name}.")]
    if f"{name}.index" not in files:
        raise FileNotFoundError(checkpoint)
    return sorted(files, key=lambda file: file.endswith(".index"))


def _versions(folder: str, files: list[str]) -> list[tuple[int, float]]:
    paths = [storage.join(folder, file) for file in files]
    return [(storage.size(path), storage.modified(path)) for path in paths]


def _hold(source: str, target: str) -> None:
    """Data is linked if that can be: its writer replaces the file. An index is written in place."""
    if ".data-" in source and not storage.is_remote(source):
        with contextlib.suppress(PermissionError, NotImplementedError):
            os.link(source, target)
            return
    _copy(source, target)


def _copy(source: str, target: str) -> None:
    if storage.is_remote(source) or storage.is_remote(target):
        storage.copy(source, target)
        return
    try:
        tf.io.gfile.copy(source, target, overwrite=True)
    except tf.errors.NotFoundError:
        raise FileNotFoundError(source) from None
