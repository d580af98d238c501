"""Lines about epochs that have ended, with those that say the same put together."""

from __future__ import annotations

import re
from collections.abc import Callable

# So many that are alike are shown one by one.
_SINGLY = 3
_LINE = re.compile(r"epoch (\d+): (.*)")


class EpochLines:
    """Passes lines such as `epoch 3: …` on to `say`.

    Of many that say the same, one after another, the first are passed on as they are, and the
    others together: as many as there have been before, again and again, so that a hundred epochs
    take some ten lines.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._alike = 0  # lines in a row that say the same, with those held back
        self._text: str | None = None
        self._held: list[str] = []

    def add(self, line: str) -> None:
        """Takes the next line."""
        match = _LINE.fullmatch(line)
        text = match[2] if match else None
        if text is None or text != self._text:
            self.flush()
            self._alike = 0
        self._text = text
        self._alike += 1
        self._held.append(line)
        if self._alike <= _SINGLY or 2 * len(self._held) >= self._alike:
            self.flush()

    def flush(self) -> None:
        """Passes on what was held back."""
        if len(self._held) > 1:
            numbers = [line.removeprefix("epoch ").partition(":")[0] for line in self._held]
            self._say(f"epochs {numbers[0]} to {numbers[-1]}, each: {self._text}")
        elif self._held:
            self._say(self._held[0])
        self._held = []
