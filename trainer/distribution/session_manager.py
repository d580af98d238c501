"""How sessions of training processes are made on parameter servers, and made again.

TensorFlow restores parameters before it calls any hook, and a worker that finds a server without
values sleeps for 30 seconds before it looks again. Neither can be set from outside
(docs/tensorflow-pitfalls.md#waiting-for-parameters), so its `SessionManager` is replaced while a
process trains.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.training import session_manager  # where TensorFlow's creators look it up

from pipeline import errors
from pipeline.processes import signals

# What fails if another process of the cluster is lost; the framework then makes another session.
LOST_PEER = (tf.errors.AbortedError, tf.errors.UnavailableError)
_PAUSE = 0.5  # seconds between looks of a worker


def build_lost_peer_error(error: Exception) -> errors.RetryableError:
    """Returns the error that ends a process which cannot continue without a lost one."""
    return errors.RetryableError(
        f"a peer was lost: {errors.find_first_line(error)}. Run the same command to resume."
    )


class _Manager(session_manager.SessionManager):
    def __init__(self, before: Callable[[Any], None] | None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._before = before

    def prepare_session(self, master: str, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        """Makes the chief's session, with the parameters of a checkpoint or initial ones."""
        if self._before is not None:
            with self._make_bare_session(master, config) as session:
                self._before(session)
        return super().prepare_session(master, *args, config=config, **kwargs)

    def wait_for_session(
        self, master: str, config: Any = None, max_wait_secs: float | None = math.inf
    ) -> Any:
        """Makes the session of any other process, once all variables have values."""
        deadline = time.monotonic() + (math.inf if max_wait_secs is None else max_wait_secs)
        with self._make_bare_session(master, config) as session:
            while True:
                if self._before is not None:
                    self._before(session)
                try:
                    return super().wait_for_session(master, config=config, max_wait_secs=0)
                except tf.errors.DeadlineExceededError:
                    if time.monotonic() > deadline:
                        raise
                if signals.stop_requested.wait(_PAUSE):
                    raise errors.StoppedError(
                        "stopped while waiting for the parameters. Run the same command to resume."
                    )

    def _make_bare_session(self, master: str, config: Any) -> Any:
        return tf.compat.v1.Session(master, graph=self._graph, config=config)


@contextlib.contextmanager
def call_before_sessions(before: Callable[[Any], None] | None) -> Iterator[None]:
    """Has `before`, if it is given, called ahead of each session that is made, with a bare one on
    the same graph. A worker that waits for variables looks, and calls it, twice a second.
    """
    theirs = session_manager.SessionManager
    session_manager.SessionManager = functools.partial(_Manager, before)
    try:
        yield
    finally:
        session_manager.SessionManager = theirs
