"""Output that may end before the work does: a terminal is closed, a pipe has lost its reader."""

from __future__ import annotations

import errno
import os
import sys
import textwrap
from typing import Any, TextIO

_DEFAULT_WIDTH, _DEFAULT_HEIGHT, _NARROWEST = 80, 24, 40


class Lasting:
    """A text stream that drops its output once its reader is gone, instead of raising.

    A closed terminal refuses everything written to it; work that saves what it has done must not
    fail of that. With `piped` the same holds for a pipe.
    """

    def __init__(self, stream: TextIO, *, piped: bool) -> None:
        self._stream = stream
        self._endings = (errno.EIO, errno.EPIPE) if piped else (errno.EIO,)

    def write(self, text: str) -> int:
        """Writes `text`, as far as there is anybody to read it."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._go_silent(error)
        return len(text)

    def flush(self) -> None:
        """Hands on what has been written."""
        try:
            self._stream.flush()
        except OSError as error:
            self._go_silent(error)

    def _go_silent(self, error: OSError) -> None:
        if error.errno not in self._endings:
            raise error
        drop_output(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def drop_output(stream: TextIO) -> None:
    """Lets what is still written to a stream go nowhere: its reader is gone (`| head`), and the
    interpreter would complain at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def install(*, piped: bool) -> None:
    """Makes the standard streams of this process lasting ones."""
    _reopen()
    sys.stdout = Lasting(sys.stdout, piped=piped)
    sys.stderr = Lasting(sys.stderr, piped=piped)


def _reopen() -> None:
    """Opens the standard streams that are closed (`>&-`) to nothing: the next files to be opened
    would have their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def width(stream: TextIO) -> int:
    """Returns the columns of the terminal behind `stream`.

    `COLUMNS` goes before what the terminal says; one that does not say is taken for 80 wide.
    """
    if os.environ.get("COLUMNS", "").isdigit():
        found = int(os.environ["COLUMNS"])
    else:
        found = _measure_size(stream)[0]
    return max(found, _NARROWEST) if found else _DEFAULT_WIDTH


def height(stream: TextIO) -> int:
    """Returns the lines of the terminal behind `stream`; 24 if it does not say."""
    return _measure_size(stream)[1] or _DEFAULT_HEIGHT


def _measure_size(stream: TextIO) -> tuple[int, int]:
    try:
        return os.get_terminal_size(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return 0, 0


def wrap(line: str, stream: TextIO, indent: int = 2) -> str:
    """Returns a line as it fits the terminal behind `stream`, broken between words, with `indent`
    spaces before what is carried over. For what is no terminal it stays as it is."""
    if not stream.isatty():
        return line
    return textwrap.fill(
        line,
        width(stream) - 1,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )


def display_path(path: str) -> str:
    """Returns a path below the current folder relative to it, and any other as it is."""
    if "://" in path:
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
