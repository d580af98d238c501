"""The ways a command can fail, each with the exit code a supervisor acts on.

The numbers follow BSD `sysexits.h` where it has a fitting one. A supervisor retries 75 and
deaths by signal; it never retries 64, 65 or 70, because the same input fails the same way.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import traceback
import unicodedata
from collections.abc import Iterable, Iterator
from importlib import metadata

from pipeline import packages

# Control characters, and what ends lines and paragraphs.
_BREAKS = ("Cc", "Zl", "Zp")
# What a traceback begins with, in the text of an error too.
_TRACEBACK = "Traceback (most recent call last):"
# How a line begins that has the name of an exception.
_RAISED = re.compile(r"(?:\w+\.)*[A-Z]\w*(?::|$)")
# What TensorFlow puts before each of several errors.
_NUMBER = re.compile(r"^\(\d+\) [A-Z_]+:\s*")
# What TensorFlow puts before an error: where the op was made, with lines of that program.
_WHERE_MADE = re.compile(r"^Detected at node .*^Node: '.*?$", re.MULTILINE | re.DOTALL)
# How many errors follow, and the nodes that failed.
_NO_CAUSE = re.compile(r"\d+ root error\(s\) found|\[\[")


class PipelineError(Exception):
    """Base of all failures a user can cause or cure; its text is one line for a person."""

    exit_code = 1

    def __str__(self) -> str:
        """The text; names in it may hold newlines and the like, which are escaped."""
        text = super().__str__()
        if text.isprintable():
            return text
        return "".join(repr(c)[1:-1] if unicodedata.category(c) in _BREAKS else c for c in text)

    @property
    def line(self) -> str:
        """What a terminal or a log shows."""
        return f"error: {self}"


class UsageError(PipelineError, ValueError):
    """Bad flag, bad config, or a request that cannot work on this machine."""

    exit_code = 64


class DataError(PipelineError, ValueError):
    """Raw data or records that are missing, malformed or altered."""

    exit_code = 65


class ModelError(PipelineError, RuntimeError):
    """Training went wrong in the model itself, such as a loss that is not a number."""

    exit_code = 70


class RetryableError(PipelineError, RuntimeError):
    """Stopped by something outside (preemption, full disk, lost peer): run it again to resume."""

    exit_code = 75


class StoppedError(RetryableError):
    """Ended because a person, a scheduler or a machine that shuts down asked for it: no failure,
    and its line does not call it an error."""

    @property
    def line(self) -> str:
        """What a terminal or a log shows."""
        return str(self)


class ReportedError(PipelineError):
    """A command that we ran has failed and has already printed its own line."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("")
        self.exit_code = exit_code


# The same input fails the same way: these are never tried again.
FINAL_CODES = (
    UsageError.exit_code,
    DataError.exit_code,
    ModelError.exit_code,
)


def build_from_exit_code(code: int, text: str, *, stopped: bool = False) -> PipelineError:
    """Returns the error that ends this process with the exit code another one ended with; `stopped`
    if that one was asked to end. Raises `ValueError` for 0, by which a failure would go unseen."""
    if code == 0:
        raise ValueError(f"exit code 0 is of no failure: {text}")
    kinds = (UsageError, DataError, ModelError, StoppedError if stopped else RetryableError)
    error = next((kind for kind in kinds if kind.exit_code == code), PipelineError)(text)
    error.exit_code = code
    return error


# Failures that come from the operating system, by what the user has to do about them.
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOST = (errno.ENOENT, errno.EIO, errno.ESTALE, errno.ENOTCONN)
_NOT_ALLOWED = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOENT,
    errno.EEXIST,
)


def translate_os_error(error: OSError, doing: str, *, place_of: str = "STORAGE=") -> PipelineError:
    """Turns an `OSError` met while `doing` something into the one-line error for it; `place_of` is
    what says where that is."""
    place = f"{doing}: {error.strerror or error}"
    if error.errno in _DISK_FULL:
        return RetryableError(f"{place}. Free some space and run the same command again.")
    if error.errno in _NOT_ALLOWED:
        return UsageError(f"{place}. Choose a place you can write to with {place_of}.")
    return RetryableError(f"{place}. Run the same command again.")


@contextlib.contextmanager
def name_setting(setting: str) -> Iterator[None]:
    """Makes errors of a place that cannot be written to name the `setting` that says where it is,
    instead of STORAGE=."""
    try:
        yield
    except UsageError as error:
        said = str(error).replace(" with STORAGE=.", f" with {setting}.")
        raise UsageError(said) from None


def translate_disk_error(error: Exception) -> PipelineError | None:
    """Returns our error for what any library raises of a disk that is full or read-only; `None` if
    it is of another kind. TensorFlow's are no `OSError`s."""
    if isinstance(error, PipelineError) or not (
        found := _find_carried(error, *_DISK_FULL, errno.EROFS)
    ):
        return None
    number, line = found
    said = os.strerror(number)
    place = getattr(error, "filename", None) or line.partition(f"; {said}")[0]
    return translate_os_error(OSError(number, said), f"cannot write {place!r}")


def translate_lost_storage(error: Exception) -> PipelineError | None:
    """Returns our error for what TensorFlow raises when storage that was there is gone, such as a
    network's; `None` for an error of another kind, or of a Python function of the user's."""
    found = _find_carried(error, *_LOST)
    if found is None or _find_python_line(error):
        return None
    said = os.strerror(found[0])
    place = found[1].partition(f"; {said}")[0]
    return RetryableError(
        f"cannot read {place!r}: {said}. See that the storage is there, then run the same command "
        "again."
    )


def translate_import_error(error: BaseException) -> UsageError | None:
    """Returns our error for an installed library that cannot be imported, such as TensorFlow
    without a library of the system; `None` for other errors, a module of ours or of the user's own
    among them."""
    if not isinstance(error, ImportError):
        return None
    frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    tops = [name.partition(".")[0] for name in frames]
    library = next((top for top in reversed(tops) if top != "importlib"), None)
    if library in packages.NAMES or library not in metadata.packages_distributions():
        return None
    return UsageError(
        f"{library} cannot be imported: {find_first_line(error)}. Something it needs is missing "
        "here, or other versions are installed than are locked: make setup installs those"
    )


def _find_carried(error: Exception, *numbers: int) -> tuple[int, str] | None:
    """Returns which of the system's error `numbers` a library's error is of, and the line of its
    text that says so."""
    for number in numbers:
        said = os.strerror(number)
        line = next((line for line in str(error).splitlines() if said in line), None)
        if line is not None:
            return number, line
    return None


def suggest(word: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'x'?)` for the closest other word of `known`, or an empty string;
    upper or lower case does not matter."""
    folded = {one.casefold(): one for one in known if one != word}
    matches = difflib.get_close_matches(word.casefold(), folded, n=1)
    return f" (did you mean {folded[matches[0]]!r}?)" if matches else ""


def describe(error: BaseException) -> str:
    """Returns an exception's name and its first line; of an exception in a Python function of the
    user's that TensorFlow called, those of that one."""
    return _find_python_line(error) or f"{type(error).__name__}: {_strip_number(error)}"


def _find_python_line(error: BaseException) -> str | None:
    line = _strip_number(error)
    return line if _TRACEBACK in str(error) and _RAISED.match(line) else None


def _strip_number(error: BaseException) -> str:
    return _NUMBER.sub("", find_first_line(error))


def find_first_line(error: BaseException) -> str:
    """Returns the first line of an error that is no heading, as "Graph execution error:" is, no
    rule and no place in a program; the last one, which is what was raised, behind the places that
    AutoGraph puts before it. TensorFlow has what a Python function raised ahead of its traceback.
    """
    text = _WHERE_MADE.sub("", str(error))
    head, is_traced, trace = text.partition(_TRACEBACK)
    lines = _lines_with_words(head)
    if lines and lines[0].startswith("in user code:"):
        return _lines_with_words(text)[-1].removeprefix(f"{type(error).__name__}: ")
    if is_traced and not lines:
        raised = [line for line in trace.splitlines() if not line.startswith(" ")]
        return [*reversed(_lines_with_words("\n".join(raised))), type(error).__name__][0]
    telling = [line for line in lines if not line.endswith(":") and not _NO_CAUSE.match(line)]
    return [*telling, *(line.rstrip(":") for line in reversed(lines)), type(error).__name__][0]


def _lines_with_words(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
