"""Calls programs that ask a scheduler, with the user's own credentials."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping

from pipeline import errors

AGAIN = "Run the same command again."
# Seconds that a program, its plugins and what it asks may take.
SECONDS = 120.0


def ask(
    *command: str,
    place: str,
    refusal: Callable[[str], errors.PipelineError],
    text: str | None = None,
    variables: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> str:
    """Returns what a program prints; it reads `text`, and has the environment `variables`, by
    default that of this process.

    Raises `UsageError` on a machine without the program, which `CLUSTER=<place>` needs,
    `RetryableError` if it takes longer than `seconds`, and, if it fails, what `refusal` makes of
    its messages.
    """
    try:
        done = subprocess.run(
            command,
            env=variables,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError:
        raise errors.UsageError(f"CLUSTER={place}: no {command[0]} on this machine") from None
    except subprocess.TimeoutExpired:
        raise errors.RetryableError(f"{command[0]}: no answer in {seconds:g} s. {AGAIN}") from None
    if done.returncode == 0:
        return done.stdout
    raise refusal(done.stderr or done.stdout)
