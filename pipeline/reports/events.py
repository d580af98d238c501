"""What event files hold, read without TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from pipeline import errors, storage
from pipeline.records import tfrecord

_EVENTS = "events.out.tfevents."
_SAVED, _STARTED = 3, 1  # of `SessionLog.SessionStatus`


@dataclasses.dataclass(frozen=True)
class Point:
    """One value of a curve; `time` is Unix time in seconds."""

    step: int
    time: float
    value: float


@dataclasses.dataclass(frozen=True)
class Moment:
    """A step at a time."""

    step: int
    time: float


@dataclasses.dataclass
class FolderEvents:
    """The curves of a folder, by tag, and when its process started and saved, all in the
    order in which they were written."""

    curves: dict[str, list[Point]] = dataclasses.field(default_factory=dict)
    starts: list[Moment] = dataclasses.field(default_factory=list)
    saves: list[Moment] = dataclasses.field(default_factory=list)

    def curve(self, tag: str) -> list[Point]:
        """Returns a curve as it is in the end: what was made again after a restart replaces what
        was made before it."""
        found: list[Point] = []
        for point in self.curves.get(tag, []):
            while found and found[-1].step >= point.step:
                found.pop()
            found.append(point)
        return found


def read(folder: str) -> FolderEvents:
    """Returns what the event files of a folder hold. What is being written, or was cut off, ends
    the file it is in."""
    found = FolderEvents()
    for name in storage.listdir(folder):
        if name.startswith(_EVENTS):
            for event in _read_events(storage.join(folder, name)):
                _add(found, event)
    for moments in (found.starts, found.saves):
        moments.sort(key=lambda one: one.time)
    return found


def _read_events(path: str) -> Iterator[Any]:
    # It comes with TensorFlow, but does not import it.
    from google.protobuf import message
    from tensorboard.compat.proto import event_pb2

    try:
        for payload in tfrecord.read(path):
            yield event_pb2.Event.FromString(payload)
    except (errors.PipelineError, OSError, message.DecodeError):
        return


def _add(found: FolderEvents, event: Any) -> None:
    kind = event.WhichOneof("what")
    if kind == "session_log":
        moment = Moment(event.step, event.wall_time)
        status = event.session_log.status
        if status == _SAVED:
            found.saves.append(moment)
        elif status == _STARTED:
            found.starts.append(moment)
    elif kind == "summary":
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                point = Point(event.step, event.wall_time, value.simple_value)
                found.curves.setdefault(value.tag, []).append(point)
