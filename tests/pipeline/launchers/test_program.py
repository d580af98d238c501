"""Programs that ask a scheduler, and what their ends are for the user."""

from __future__ import annotations

import sys

import pytest

from pipeline import errors
from pipeline.launchers import program


def _refusal(said: str) -> errors.DataError:
    return errors.DataError(f"it said {said}")


def _ask(code: str, text: str | None = None) -> str:
    return program.ask(sys.executable, "-c", code, place="here", refusal=_refusal, text=text)


def test_it_returns_what_the_program_prints_and_hands_over_a_text():
    assert _ask("print(7)") == "7\n"
    assert _ask("import sys; print(sys.stdin.read())", "question") == "question\n"
    assert _ask("import sys; print(sys.stdin.read())") == "\n", "no terminal to read from"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_failure_becomes_the_error_of_its_messages(stream):
    with pytest.raises(errors.DataError, match=r"^it said no quota$"):
        _ask(f"import sys; sys.{stream}.write('no quota'); sys.exit(3)")


def test_a_program_that_is_not_installed():
    with pytest.raises(errors.UsageError, match=r"^CLUSTER=x: no not-a-program on this machine$"):
        program.ask("not-a-program", place="x", refusal=errors.DataError)


def test_a_program_that_does_not_end():
    with pytest.raises(errors.RetryableError, match=r"^sleep: no answer in 0\.5 s\. Run the same"):
        program.ask("sleep", "60", place="x", refusal=_refusal, seconds=0.5)
