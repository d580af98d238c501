"""Event files as TensorFlow writes them, written without it."""

from __future__ import annotations

import pathlib

from tensorboard.compat.proto import event_pb2

from pipeline.records import tfrecord


def scalar(time: float, step: int, **values: float) -> event_pb2.Event:
    """Returns an event with values by tag; `__` in a tag is a slash."""
    event = event_pb2.Event(wall_time=time, step=step)
    for tag, value in values.items():
        event.summary.value.add(tag=tag.replace("__", "/"), simple_value=value)
    return event


def session(time: float, step: int, status: str) -> event_pb2.Event:
    """Returns an event of a session's log: START or CHECKPOINT."""
    event = event_pb2.Event(wall_time=time, step=step)
    event.session_log.status = event_pb2.SessionLog.SessionStatus.Value(status)
    return event


def write(folder: pathlib.Path, *events: event_pb2.Event, name: str = "1.host") -> pathlib.Path:
    """Writes an event file into a folder and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{name}"
    first = event_pb2.Event(wall_time=1.0, file_version="brain.Event:2")
    content = b"".join(tfrecord.frame(e.SerializeToString()) for e in (first, *events))
    path.write_bytes(content)
    return path
