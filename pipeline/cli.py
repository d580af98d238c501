"""How every command of the project starts: flags in, one line of error and an exit code out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from absl import app, flags

from pipeline import cloud_errors, errors, redaction


def run(main: Callable[[], None], argv: list[str] | None = None) -> None:
    """Parses the flags, calls `main`, and exits with the code of what happened.

    Unknown flags and positional arguments are refused with exit code 64. A `PipelineError`
    becomes one line on stderr, and so does what Cloud Storage refuses TensorFlow's client; anything
    else is a bug of ours and keeps its traceback.
    """
    sys.exit(_exit_code(main, sys.argv if argv is None else argv))


def _exit_code(main: Callable[[], None], argv: list[str]) -> int:
    try:
        _parse_flags(argv)
    except SystemExit:
        return 0  # --help has been printed; absl would exit with 1
    except errors.UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    try:
        main()
        sys.stdout.flush()
        return 0
    except errors.ReportedError as error:
        return error.exit_code
    except errors.PipelineError as error:
        print(redaction.redact(f"error: {error}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: interrupted. Run the same command again to go on.", file=sys.stderr)
        return errors.RetryableError.exit_code
    except BrokenPipeError:
        # The reader of our output is gone (`| head`); the interpreter would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        refused = cloud_errors.of_tensorflow(error)
        if not isinstance(refused, errors.PipelineError):
            raise
        print(redaction.redact(f"error: {refused}"), file=sys.stderr)
        return refused.exit_code


def _parse_flags(argv: list[str]) -> None:
    app.define_help_flags()
    try:
        # A command without arguments helps: absl prints the module's docstring and flags.
        rest = flags.FLAGS(argv if len(argv) > 1 else [*argv, "--help"])[1:]
    except flags.Error as error:
        raise errors.UsageError(f"{error}. Run with --help for the flags there are.") from None
    if rest:
        raise errors.UsageError(f"unexpected argument {rest[0]!r}. All options are --flags.")
