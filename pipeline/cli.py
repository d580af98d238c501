"""How every command of the project starts: flags in, one line of error and an exit code out. Flags
that several commands have are declared here."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from absl import app, flags

from pipeline import errors, places, redaction
from pipeline.command_line import hints, overrides
from pipeline.console import interrupts, terminal
from pipeline.processes import collector, environment, exits

if TYPE_CHECKING:
    from pipeline.processes import isolation

# The flags of the functions below are the calling module's, whose --help has them;
# `pipeline.command_line.declared` finds them by the calls.
flags.disclaim_key_flags()


def storage_flag() -> flags.FlagHolder[str]:
    """Declares where everything is."""
    return flags.DEFINE_string("storage", "output", "Root of everything written, local or gs://.")


def local_storage_flag() -> flags.FlagHolder[str]:
    """Declares the same for a command that cannot use an object store."""
    return flags.DEFINE_string("storage", "output", "Root of everything written, a local folder.")


def set_flag() -> flags.FlagHolder[list[str]]:
    """Declares what to change in a config."""
    return flags.DEFINE_multi_string(
        "set", [], "Override: section.key=value, such as train.steps=500. Repeatable."
    )


def config_flag(default: str | None = None, required: bool = False) -> flags.FlagHolder[Any]:
    """Declares the config that a command reads."""
    return flags.DEFINE_string(
        "config", default, "Name in configs/, or path of a config file.", required=required
    )


def config_flags() -> tuple[flags.FlagHolder[str], flags.FlagHolder[list[str]]]:
    """Declares a config, and what to change in it."""
    return config_flag(required=True), set_flag()


def run_flags() -> tuple[
    flags.FlagHolder[str | None], flags.FlagHolder[str | None], flags.FlagHolder[str]
]:
    """Declares the run that a command is about: its name, its config and where it is."""
    return (
        flags.DEFINE_string("run", None, "Name of the run; the newest one if empty."),
        flags.DEFINE_string("config", None, "The newest run of this config, if no run is named."),
        storage_flag(),
    )


def cluster_flags() -> tuple[
    flags.FlagHolder[str | None], flags.FlagHolder[int | None], flags.FlagHolder[int | None]
]:
    """Declares strategy, workers and parameter servers of a job."""
    strategy = flags.DEFINE_string("strategy", None, "Short for --set=cluster.strategy=...")
    return strategy, *process_flags()


def process_flags(
    default: int | None = None,
) -> tuple[flags.FlagHolder[int | None], flags.FlagHolder[int | None]]:
    """Declares workers and parameter servers."""
    return (
        flags.DEFINE_integer("workers", default, "Workers besides the chief.", lower_bound=0),
        flags.DEFINE_integer("ps", default, "Parameter servers.", lower_bound=0),
    )


def place_flag(allowed: Iterable[str]) -> flags.FlagHolder[str]:
    """Declares the place where jobs run, one of those `allowed`."""
    return flags.DEFINE_enum("cluster", places.HERE, allowed, "Where jobs run.")


def isolate_flag(default: isolation.Isolate) -> flags.FlagHolder[isolation.Isolate]:
    """Declares whether a cluster on this machine can be reached from outside."""
    from pipeline.processes import isolation

    return flags.DEFINE_enum_class(
        "isolate",
        default,
        isolation.Isolate,
        "Give a local cluster a network of its own, without any other, so that its ports cannot be "
        "reached from outside: auto, on or off.",
    )


def dry_run_flag() -> flags.FlagHolder[bool]:
    """Declares that nothing is to be done."""
    return flags.DEFINE_bool("dry_run", False, "Only show what would be done.")


def remote_dry_run_flag() -> flags.FlagHolder[bool]:
    """Declares the same for a command that shows only jobs of other places."""
    return flags.DEFINE_bool("dry_run", False, "Only show the job; for any --cluster but local.")


def checkpoint_flag() -> flags.FlagHolder[str | None]:
    """Declares which checkpoint of a run."""
    return flags.DEFINE_string("checkpoint", None, "A step or best; the newest if empty.")


def checkpoints_flag() -> flags.FlagHolder[str | None]:
    """Declares the same for a command that can take all of them."""
    return flags.DEFINE_string("checkpoint", None, "A step, best, or all; the newest if empty.")


def slices_flag() -> flags.FlagHolder[list[str]]:
    """Declares by which columns metrics are sliced."""
    return flags.DEFINE_list("slices", [], "Columns to slice by; those of eval.slices if none.")


def port_flag(default: int) -> flags.FlagHolder[int]:
    """Declares where a server listens."""
    return flags.DEFINE_integer(
        "port",
        default,
        "Where to listen; 0 for any that is free.",
        lower_bound=0,
        upper_bound=65535,
    )


def export_flag(kinds: Iterable[str]) -> flags.FlagHolder[str]:
    """Declares which of the exported models of a run."""
    return flags.DEFINE_enum("export", "final", kinds, "Which exported model: final or best.")


def beam_flags() -> tuple[flags.FlagHolder[int], flags.FlagHolder[list[str]]]:
    """Declares how Beam runs."""
    return (
        flags.DEFINE_integer("num_workers", 1, "Number of local worker processes.", lower_bound=1),
        flags.DEFINE_list("pipeline_options", [], "Beam's own flags, separated by commas."),
    )


def run(
    main: Callable[[], None],
    argv: list[str] | None = None,
    *,
    outlives_reader: bool = False,
    native_log: str = "",
) -> None:
    """Parses the flags, calls `main`, and exits with the code of what happened.

    Unknown flags and positional arguments are refused with exit code 64. A `PipelineError` becomes
    one line on stderr, and so do what Cloud Storage refuses TensorFlow's client, what a full or
    read-only disk does, and a library that cannot be imported; anything else is a bug of ours and
    keeps its traceback. SIGTERM and SIGHUP interrupt as Ctrl-C does, which is no error either. A
    command ends when its output is no longer read (`| head`), unless it `outlives_reader`. What
    TensorFlow logs from C++ begins at level `native_log` of `environment.NATIVE_LOG`, unless the
    environment has one.
    """
    if native_log:
        os.environ.setdefault(environment.NATIVE_LOG, native_log)
    collector.relax()
    terminal.install(piped=outlives_reader)
    interrupts.install()
    sys.exit(exits.prepare(_exit_code(main, sys.argv if argv is None else argv)))


def _exit_code(main: Callable[[], None], argv: list[str]) -> int:
    try:
        return _parse_and_call(main, argv)
    except KeyboardInterrupt:  # while flags are parsed, or another error is about to be printed
        return _print_error(_interruption(), argv)


def _parse_and_call(main: Callable[[], None], argv: list[str]) -> int:
    try:
        _parse_flags(argv)
    except SystemExit:  # --help has been printed; absl would exit with 1
        return exit_code(lambda: None, argv)
    except BrokenPipeError:
        terminal.drop_output(sys.stdout)
        return 0
    except errors.UsageError as error:
        return _print_error(error, argv)
    return exit_code(main, argv)


def exit_code(main: Callable[[], None], argv: list[str]) -> int:
    """Calls `main`, and returns the exit code of what happened after printing its line; `argv` is
    how the command was called. Raises what is a bug of ours."""
    try:
        main()
        sys.stdout.flush()
        return 0
    except errors.ReportedError as error:
        return error.exit_code
    except errors.PipelineError as error:
        return _print_error(error, argv)
    except KeyboardInterrupt:
        return _print_error(_interruption(), argv)
    except BrokenPipeError:
        terminal.drop_output(sys.stdout)
        return 0
    except Exception as error:
        from pipeline.storage import gcs_errors

        refused = (
            gcs_errors.translate_tensorflow_error(error)
            or errors.translate_disk_error(error)
            or errors.translate_import_error(error)
        )
        if not isinstance(refused, errors.PipelineError):
            raise
        return _print_error(refused, argv)


def _interruption() -> errors.StoppedError:
    by = f" by {interrupts.get_received()}" if interrupts.get_received() else ""
    return errors.StoppedError(f"stopped{by}. Run the same command again.")


def _print_error(error: errors.PipelineError, argv: list[str]) -> int:
    """Prints the line of an error, and returns its exit code. Signals do not count any more: they
    come twice at a time, as from `timeout` and make."""
    interrupts.ignore()
    text = hints.format_as_typed(error.line, argv)
    print(redaction.redact(text).replace(f"'{os.getcwd()}/", "'"), file=sys.stderr)
    return error.exit_code


def _parse_flags(argv: list[str]) -> None:
    app.define_help_flags()
    if hints.is_via_make():
        argv = [word for given in argv for word in _expand_set(given)]
    try:
        rest = flags.FLAGS(argv)[1:]
    except flags.Error as error:
        if len(argv) == 1:  # absl prints the module's docstring and flags
            flags.FLAGS([*argv, "--help"])
        raise errors.UsageError(_explain(str(error))) from None
    if rest:
        raise errors.UsageError(f"unexpected argument {rest[0]!r}. All options are --flags.")
    for name, value in flags.FLAGS.flag_values_dict().items():
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.UsageError(f"--{name}={value}: must be a finite number")


def _expand_set(argument: str) -> list[str]:
    """Returns a flag for each setting that the variable SET of make holds."""
    prefix = "--set="
    if not argument.startswith(prefix):
        return [argument]
    return [prefix + setting for setting in overrides.parse(argument.removeprefix(prefix))]


def _explain(problem: str) -> str:
    """Puts what absl says of flags in our words, on one line."""
    if problem.startswith("flag --"):
        lines = (line.removeprefix("flag ").rstrip(".") for line in problem.splitlines())
        problem = "; ".join(lines)
        problem = re.sub(r"invalid literal for int\(\) .*", "must be a whole number", problem)
        problem = re.sub(r"Exceeds the limit .*", "is too large", problem)
        problem = re.sub(r"could not convert string to float: .*", "must be a number", problem)
        # absl says 0.0 of a 0 that was typed.
        return re.sub(r"\S+ is not (?:a )?((?:[a-z-]+ )?number\b)", r"must be a \1", problem)
    return f"{problem}. Run with --help for the flags there are."
