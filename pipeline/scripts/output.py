"""What the log of a script tells: step, loss and evaluations, in the lines that Estimators write.

    loss = 0.71, step = 200 (0.4 sec)
    Saving dict for global step 200: accuracy = 0.9, global_step = 200, loss = 0.3

TensorFlow writes them at the level INFO, which `tf.compat.v1.logging.set_verbosity` sets.
"""

from __future__ import annotations

import math
import os
import re

_NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?)"
_STEP = re.compile(
    r"(?<![\w/])(?<!final )(?:global_)?step ?[=:] ?(\d{1,18})(?![\d/]|\.\d)", re.IGNORECASE
)
_SAVING = re.compile(r"Saving checkpoints for (\d{1,18}) into")
_LOSS = re.compile(rf"(?<![\w/])loss ?[=:] ?{_NUMBER}", re.IGNORECASE)
_EVALUATION = re.compile(r"Saving dict for global step (\d{1,18}): (.+)")
_METRIC = re.compile(rf"([\w/.-]+) = {_NUMBER}(?=,|$)")
_MOST = 1 << 20  # bytes read at a time


class LogFollower:
    """Follows the log of one process from its present end on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = os.path.getsize(path) if os.path.exists(path) else 0
        self._begun = b""
        self.step: int | None = None
        self.loss: float | None = None
        # As in a process's status: {"step": int, metric: float}.
        self.evaluation: dict[str, float] | None = None
        # The newest line that is not empty.
        self.last = ""

    def follow(self) -> None:
        """Takes in what has been written since."""
        while part := self._part():
            *lines, self._begun = (self._begun + part).split(b"\n")
            # A bar of progress rewrites one line for ever.
            self._begun = self._begun[-_MOST:]
            for line in lines:
                self.see(line.decode(errors="replace"))

    def see(self, line: str) -> None:
        """Takes in one line."""
        text = line.rstrip()
        if not text:
            return
        self.last = text
        evaluation = _EVALUATION.search(text)
        if evaluation:
            self.evaluation = {"step": int(evaluation[1]), **_parse_metrics(evaluation[2])}
            return
        found = _STEP.search(text) or _SAVING.search(text)
        if found is None:
            return
        self.step = int(found[1])
        loss = _LOSS.search(text)
        if loss is not None and (value := _parse_value(loss[1])) is not None:
            self.loss = value

    def _part(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read)
                part = file.read(_MOST)
        except OSError:
            return b""
        self._read += len(part)
        return part


def _parse_metrics(text: str) -> dict[str, float]:
    values = {name: _parse_value(number) for name, number in _METRIC.findall(text)}
    return {n: v for n, v in values.items() if v is not None and n not in ("step", "global_step")}


def _parse_value(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
