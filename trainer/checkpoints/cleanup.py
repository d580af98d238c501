"""Removes what checkpoints leave behind.

TensorFlow deletes at most one checkpoint a save, of those its list names, so a smaller
`keep_checkpoints` never takes effect; a process that is killed while it saves leaves half a
checkpoint, and workers of an all-reduce leave whole ones of their own
(docs/tensorflow-pitfalls.md#old-checkpoints-stay, #interrupted-saves,
#checkpoints-of-workers).
"""

from __future__ import annotations

import re

from pipeline import storage
from trainer.checkpoints import checkpoint_list, traces

# What is being written: `model.ckpt-7_temp/` of a save, `….index.tempstate…` of its last moments.
_HALF = re.compile(r"model\.ckpt-\d+_temp\S*|\S+\.tempstate\d+")
_OF_WORKER = re.compile(r"tmp_(?:chief|worker|evaluator)_\d+|tmp")


class Janitor:
    """Keeps the folder of the checkpoints clean; the chief's alone.

    It never touches a checkpoint that the list names, nor one newer than those.
    """

    def __init__(self, model_dir: str, keep: int) -> None:
        self._model_dir = model_dir
        self._keep = keep

    def open(self) -> None:
        """Shortens the list to `keep` and removes what earlier processes left.

        To be called before the chief joins its cluster: workers write only after that.
        """
        listed = checkpoint_list.read(self._model_dir)
        if len(listed) > self._keep:
            checkpoint_list.write(self._model_dir, listed[: self._keep])
        self._remove(_HALF)
        self._remove(_OF_WORKER)

    def clean(self) -> None:
        """Removes checkpoints that no list names any more, after a save."""
        self._remove(_HALF)
        kept = {path.rpartition("/")[2] for path in checkpoint_list.read(self._model_dir)}
        steps = [traces.read_step(name) for name in kept if name.startswith("model.ckpt-")]
        newest = max(steps, default=0)
        for name in storage.listdir(self._model_dir):
            part = traces.PART.fullmatch(name)
            if part and part[1] not in kept and int(part[2]) < newest:
                storage.remove(storage.join(self._model_dir, name))

    def _remove(self, pattern: re.Pattern[str]) -> None:
        for name in storage.listdir(self._model_dir):
            if pattern.fullmatch(name):
                storage.remove(storage.join(self._model_dir, name))
