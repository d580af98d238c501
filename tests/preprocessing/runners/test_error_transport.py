"""Errors of workers arrive as what they were, whatever the runner wraps them in."""

from __future__ import annotations

import errno
import pickle

import pytest

from pipeline import errors
from preprocessing.runners import error_transport
from preprocessing.sources import base


def _carry(error: Exception) -> error_transport.Carried:
    with (
        pytest.raises(error_transport.Carried) as info,
        error_transport.carry_errors("cannot write 'x'"),
    ):
        raise error
    return info.value


@pytest.mark.parametrize("kind", [errors.DataError, errors.UsageError, errors.RetryableError])
@pytest.mark.parametrize("wrap", ["{}", "{} [while running 'ReadAndSpill']", "Trace:\n\n{}\n\n"])
def test_kind_and_text_survive(kind, wrap):
    text = "'a \"file\"\\n': row 3:\nis ü > 1"
    found = error_transport.find(RuntimeError(wrap.format(_carry(kind(text)))))
    assert type(found) is kind
    # One line, escaped once.
    assert str(found) == str(kind(text)) == "'a \"file\"\\n': row 3:\\nis ü > 1"


def test_other_kinds_of_ours_keep_their_text():
    found = error_transport.find(_carry(errors.ModelError("nan")))
    assert type(found) is errors.PipelineError and str(found) == "nan"


def test_more_special_kinds_arrive_as_the_kind_they_are_of():
    missing = base.MissingColumn("a.csv", "size", "; its header has id")
    found = error_transport.find(_carry(missing))
    assert type(found) is errors.DataError
    assert str(found) == "'a.csv': column 'size' of the config is missing; its header has id"
    assert str(pickle.loads(pickle.dumps(missing))) == str(found)


def test_what_the_disk_says_is_translated():
    found = error_transport.find(_carry(OSError(errno.ENOSPC, "No space left on device")))
    assert isinstance(found, errors.RetryableError)
    assert str(found).startswith("cannot write 'x': No space left on device. Free some space")


def test_bugs_are_left_alone():
    with pytest.raises(KeyError), error_transport.carry_errors("x"):
        raise KeyError("a bug")
    assert error_transport.find(RuntimeError("a bug")) is None


def test_interruptions_are_known_by_their_cause():
    wrapped = RuntimeError("KeyboardInterrupt [while running 'ReadAndSpill']")
    assert error_transport.is_interrupt(wrapped)
    hidden = RuntimeError("bundle failed")
    hidden.__context__ = KeyboardInterrupt()
    assert error_transport.is_interrupt(hidden)
    assert not error_transport.is_interrupt(RuntimeError("a bug"))
