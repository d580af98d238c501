"""The moments of a training process at which faults are injected, besides a global step.

`install` makes a process report them: it wraps TensorFlow's savers, the session's initialization
and the place where a process takes the next records.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from trainer.exactly_once import dispatcher
from trainer.input import window_feed

# While the files of a checkpoint are written.
SAVING = "saving"
# After parameters were restored, before a hook sees the session.
RESTORED = "restored"
# While blocks are taken from the dispatcher, or the input pipeline begins the next window.
TAKING = "taking"
MOMENTS = (SAVING, RESTORED, TAKING)
# A line for each save and restore of the chief: {"moment", "pid", "step", "until"}. `step` is that
# of the newest checkpoint; `until` the global step at the end of the save.
FILE = "moments.jsonl"

# Takes a moment, and the step of what is saved; what it returns, if anything, is called at once.
Due = Callable[..., Callable[[], None] | None]
_POLL = 0.0002  # seconds; small checkpoints are written in milliseconds
_TAKES = 0.003  # seconds; about what taking blocks lasts


def install(due: Due, note: Callable[..., None]) -> None:
    """Reports the moments of this process to `due`, then to `note`. Must be called before the input
    pipeline is made."""
    _wrap(tf.compat.v1.train.Saver, "save", functools.partial(_report_save, due))
    _wrap(tf.compat.v1.train.CheckpointSaverHook, "_save", functools.partial(_whole_save, note))
    _wrap(dispatcher.Dispatcher, "take", functools.partial(_report_taking, due))
    windows = window_feed.Feed.read_windows

    def report_feed(feed: window_feed.Feed, *args) -> Iterator:
        for window in windows(feed, *args):
            _act(due(TAKING))
            yield window

    window_feed.Feed.read_windows = report_feed


def report_restores(task: str, due: Due, note: Callable[..., None]) -> None:
    """Reports restores too. Must be called while the graph of the session to come is the default
    one."""

    def report() -> None:
        _act(due(RESTORED))
        note(RESTORED)

    role, _, index = task.partition("-")
    in_cluster = os.environ.get("TF_CONFIG", "{}") != "{}"
    with tf.device(f"/job:{role}/task:{index}" if in_cluster else None):
        # Part of the local initialization, which follows the restore.
        op = tf.numpy_function(report, [], [])
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, op)


def _wrap(kind: type, name: str, around: Callable) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def wrapped(self, *args, **kwargs):
        with around(self, *args, **kwargs):
            return original(self, *args, **kwargs)

    setattr(kind, name, wrapped)


def _act(action: Callable[[], None] | None) -> None:
    if action is not None:
        action()


@contextlib.contextmanager
def _report_save(
    due: Due, saver, session, path: str, global_step: int | None = None, **_
) -> Iterator[None]:
    """Acts when the first file of the checkpoint appears; at the latest when all have."""
    action = due(SAVING, global_step)
    if action is None:
        yield
        return
    folder, known = os.path.dirname(path), set(os.listdir(os.path.dirname(path)))
    written = threading.Event()

    def watch() -> None:
        while not written.is_set() and set(os.listdir(folder)) <= known:
            time.sleep(_POLL)
        action()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        written.set()
        watcher.join()


@contextlib.contextmanager
def _whole_save(note: Callable[..., None], hook, session, step: int) -> Iterator[None]:
    """Between the steps before and after it, others have updated what was being saved."""
    yield
    note(SAVING, until=int(session.run(hook._global_step_tensor)))


@contextlib.contextmanager
def _report_taking(due: Due, *_, **__) -> Iterator[None]:
    action = due(TAKING)
    if action is not None:
        threading.Timer(random.uniform(0, _TAKES), action).start()
    yield
