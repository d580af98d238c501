"""Event files of a run: summaries go into them, and those of a run on gs:// are written on this
machine, and copied there now and then.

TensorFlow's writers upload the whole file again at every flush
(docs/tensorflow-pitfalls.md#event-files-uploaded-whole), while training waits.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from pipeline import storage
from pipeline.storage import mirror

# Where Vertex AI looks for the events that its TensorBoard is to show, and nowhere else.
VERTEX = "AIP_TENSORBOARD_LOG_DIR"
# The folder of a worker that saves next to the chief; its events are not read.
_OF_WORKER = "tmp_"

_Cache = tf.compat.v1.summary.FileWriterCache


def write(folder: str, step: int, values: Mapping[str, Any], *, flush: bool = False) -> None:
    """Adds scalars and `HistogramProto`s, by tag, to the event file of this process in a folder.
    Give `flush` with the last ones, which nothing else would write out."""
    summary = tf.compat.v1.Summary()
    for tag, value in values.items():
        kind = "histo" if isinstance(value, tf.compat.v1.HistogramProto) else "simple_value"
        summary.value.add(tag=tag, **{kind: value})
    writer = _Cache.get(folder)
    writer.add_summary(summary, step)
    if flush:
        writer.flush()


@contextlib.contextmanager
def write_locally(model_dir: str, also: str | None = None) -> Iterator[None]:
    """Lets all writers of `model_dir`, and of folders in it, write to a folder of this machine.

    Does nothing for a run on a disk. At the end, and every now and then, what they have written is
    copied to its place, and below `also`.
    """
    if not storage.is_remote(model_dir):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="estimator-pipeline-events-") as folder:
        events, original = EventFileCopies(folder, model_dir, also), _Cache.get
        _Cache.get = staticmethod(lambda logdir: original(events.place(logdir)))
        with mirror.keep_up(events):
            try:
                yield
            finally:
                _Cache.get = original


class EventFileCopies(mirror.Copies):
    """Event files in a local `folder` that are to be below `target` too, and `also` elsewhere."""

    def __init__(self, folder: str, target: str, also: str | None = None) -> None:
        super().__init__()
        self._folder, self._target, self._also = folder, target, also

    def place(self, logdir: str) -> str:
        """Returns the local folder for what is to be in `logdir`; other folders stay theirs."""
        logdir = logdir.rstrip("/")
        if logdir != self._target and not logdir.startswith(f"{self._target}/"):
            return logdir
        below = logdir[len(self._target) :].strip("/")
        place = os.path.join(self._folder, *filter(None, below.split("/")))
        if not below.startswith(_OF_WORKER):
            self.add(place, logdir, *([storage.join(self._also, below)] if self._also else []))
        return place

    def copy(self) -> None:
        """Copies what has grown, up to the last event."""
        for place in list(self._targets):
            writer = _Cache._cache.get(place)
            if writer is not None:
                writer.flush()
        super().copy()
