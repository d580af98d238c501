"""The logs of a run's processes, read from wherever the run is."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator

from pipeline import errors, storage
from pipeline.runs.run_folder import RunFolder

_SUFFIX = ".log"
_PART = 1 << 20  # bytes read at a time
# Lines that TensorFlow logs as errors in every run, and are harmless; the log files keep them.
_NOISE = re.compile(
    "Unable to register cu(DNN|FFT|BLAS) factory|GPU trace was not collected|"
    "graph that escaped type checking"
)
# How logs begin a line, those of Python and those of TensorFlow's C++.
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+")


class Logs:
    """What processes of a run have said, each time what is new.

    `role` is a role or one process such as `worker-1`; all processes if it is `None`.
    """

    def __init__(self, run: RunFolder, role: str | None = None, *, part_bytes: int = _PART) -> None:
        """Reads at most `part_bytes` at a time."""
        self._folder = storage.parent(run.log_path("any"))
        self._role, self._part_bytes = role, part_bytes
        self._read: dict[str, int] = {}
        # Beginnings of lines, of which the rest is not there yet.
        self._begun: dict[str, bytes] = {}

    def names(self) -> list[str]:
        """Returns the processes that have a log, sorted; those without a number, which start the
        others, first.

        Raises `UsageError` if there are logs, but none of the role.
        """
        found = [name for name in storage.listdir(self._folder) if name.endswith(_SUFFIX)]
        known = sorted((name.removesuffix(_SUFFIX) for name in found), key=_compute_order)
        wanted = [name for name in known if self._role in (None, name, name.rpartition("-")[0])]
        if known and not wanted:
            raise errors.UsageError(
                f"ROLE={self._role}: no log of it in {self._folder!r}; there are {', '.join(known)}"
            )
        return wanted

    def read_new_lines(self, *, last: bool = False) -> Iterator[str]:
        """Yields what has been added since it was called before, of all processes by time, less
        noise of TensorFlow's.

        Lines begin with the name of their process, unless only one was asked for. One without a
        time stays behind the line before it. The beginning of a line waits for its rest, unless it
        is the `last` call.
        """
        names = self.names()
        width = 0 if names == [self._role] else max(map(len, names), default=0)
        timed = []
        for name in names:
            head = f"{name:<{width}} | " if width else ""
            timed.append(_add_times(head, _drop_noise(self._read_lines(name, last=last))))
        for _, line in heapq.merge(*timed, key=lambda entry: entry[0]):
            yield line

    def _read_lines(self, name: str, *, last: bool) -> Iterator[bytes]:
        for part in self._read_parts(name):
            *whole, rest = (self._begun.get(name, b"") + part).split(b"\n")
            self._begun[name] = rest
            yield from whole
        if last and (rest := self._begun.pop(name, b"")):
            yield rest

    def _read_parts(self, name: str) -> Iterator[bytes]:
        path = storage.join(self._folder, name + _SUFFIX)
        size, start = storage.size(path), self._read.get(name, 0)
        if size < start:  # another log
            start, self._begun[name] = 0, b""
        self._read[name] = size
        if start == size:
            return
        with storage.open_file(path) as file:
            file.seek(start)
            while start < size and (part := file.read(min(self._part_bytes, size - start))):
                start += len(part)
                yield part


def _compute_order(name: str) -> tuple[bool, str]:
    return name.rpartition("-")[2].isdecimal(), name


def _drop_noise(lines: Iterable[bytes]) -> Iterator[str]:
    decoded = (line.decode(errors="replace") for line in lines)
    return (line for line in decoded if not _NOISE.search(line))


def _add_times(head: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields lines with the time they are sorted by, which never goes back within a process."""
    time = ""
    for line in lines:
        if found := _TIME.match(line):
            time = max(time, found[0].replace(",", "."))
        yield time, head + line


def follow(
    logs: Logs,
    say: Callable[[str], None],
    ended: Callable[[], bool],
    *,
    wait: Callable[[], None],
) -> None:
    """Says what processes say, until the run has `ended`; `wait` is called between two looks."""
    while not ended():
        for line in logs.read_new_lines():
            say(line)
        wait()
    for line in logs.read_new_lines(last=True):
        say(line)
