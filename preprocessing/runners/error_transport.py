"""Carries our one-line errors from a worker through Beam to the command that must show them.

What a runner raises for a failed worker differs: the worker's own exception with a suffix, or a
RuntimeError whose text holds the worker's traceback. All keep the text, so the error
travels as a token in it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import errors

_TOKEN = re.compile(r"<fault:([A-Za-z0-9+/=]+)>")
_KINDS = {
    kind.__name__: kind
    for kind in (errors.UsageError, errors.DataError, errors.RetryableError, errors.PipelineError)
}


# Called in the process of a DoFn when it has failed, with the text that `find` understands.
listeners: list[Callable[[str], None]] = []


class Carried(Exception):
    """An error on its way to `find`. Its text holds the token and the line in plain."""


@contextlib.contextmanager
def carry_errors(doing: str) -> Iterator[None]:
    """Around the work of a DoFn: lets errors of ours and of the disk arrive at the driver."""
    try:
        yield
    except errors.PipelineError as error:
        raise _pack(error) from None
    except OSError as error:
        raise _pack(errors.translate_os_error(error, doing)) from None


def run(pipeline: Any, follow: Callable[[Any], None] | None = None) -> None:
    """Runs a Beam pipeline to its end, for which `follow` waits if it is given.

    Raises what the workers meant to say.
    """
    try:
        result = pipeline.run()
        if follow is None:
            _wait(result)
    except Exception as error:
        if fault := find(error):
            raise fault from None
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        raise
    if follow is not None:
        follow(result)


def _wait(result: Any) -> None:
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        # On another runner it would continue without us, and without its folders.
        with contextlib.suppress(NotImplementedError):
            result.cancel()
        raise


def find(error: BaseException) -> errors.PipelineError | None:
    """Returns the error that a worker meant, or `None` if it is not one of ours."""
    match = _TOKEN.search(str(error))
    if match is None:
        return None
    kind, text = json.loads(base64.b64decode(match[1]))
    return _KINDS[kind](text)


def is_interrupt(error: BaseException | None) -> bool:
    """Tells if `error` is what Beam made of Ctrl-C: it turns even that into a RuntimeError."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or str(error).startswith("KeyboardInterrupt"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _pack(error: errors.PipelineError) -> Carried:
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS)
    token = base64.b64encode(json.dumps([kind, str(error)]).encode()).decode()
    text = f"{error} <fault:{token}>"
    for listener in listeners:
        listener(text)
    return Carried(text)
