"""Refuses to save more often than Cloud Storage lets one object be written."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from pipeline import errors, storage

# Cloud Storage takes about one write a second of one object, and every save rewrites the list of
# checkpoints; more than that is refused (429), at first now and then.
_LIMIT = 1.0  # seconds
_INTERVALS = 3
_ADVISED = 10.0  # seconds


class SavePace:
    """An action after each save. Raises `UsageError` once several have come too fast."""

    def __init__(
        self, model_dir: str, save_steps: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._remote = storage.is_remote(model_dir)
        self._save_steps = save_steps
        self._clock = clock
        self._times: list[float] = []

    def __call__(self, step: int, seconds: float) -> None:
        """Notes a save that has just been made."""
        if not self._remote:
            return
        self._times = [*self._times[-_INTERVALS:], self._clock()]
        if len(self._times) <= _INTERVALS:
            return
        interval = (self._times[-1] - self._times[0]) / _INTERVALS
        if interval < _LIMIT:
            enough = math.ceil(self._save_steps * _ADVISED / max(interval, 1e-3))
            raise errors.UsageError(
                f"train.save_steps={self._save_steps}: a save every {interval:.2g} s, but Cloud "
                "Storage takes one write a second of an object, and each save rewrites the list "
                f"of checkpoints. Use train.save_steps={enough} (every {_ADVISED:g} s), or a disk"
            )
