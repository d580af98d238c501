"""Measures this project next to others on the same data, prints tables, and writes
<storage>/bench-peers.json and <storage>/bench-peers.html.

    python -m benchmarks.peers.main --storage=output
    python -m benchmarks.peers.main --only=training --programs=ours,session_loop --rounds=1 --add

Each peer gets an environment of its own below <storage>/peers. Programs take turns, and medians of
the rounds are compared, because the speed of a machine changes within minutes.
"""

from __future__ import annotations

import json
import pathlib

from absl import flags

from benchmarks.peers import page, rounds, summary
from benchmarks.peers.suites import SUITES, Program, Suite
from pipeline import cli, errors, storage
from pipeline.storage import strict_json

_ONLY = flags.DEFINE_list("only", [], "Suites to run. Default: all.")
_PROGRAMS = flags.DEFINE_list("programs", [], "Programs of them to run. Default: all.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "How often each program runs.", lower_bound=0)
_ADD = flags.DEFINE_bool("add", False, "Keep earlier rounds, and add these.")
_STORAGE = flags.DEFINE_string("storage", "output", "Folder for results and environments.")


def main() -> None:
    """Runs the suites and shows their results, with those of suites that ran before."""
    wanted = [SUITES[name] for name in _check_names("only", _ONLY.value, list(SUITES))]
    every = list(dict.fromkeys(program.name for suite in wanted for program in suite.programs))
    names = _check_names("programs", _PROGRAMS.value, every)
    root = pathlib.Path(storage.make_absolute(_STORAGE.value))
    root.mkdir(parents=True, exist_ok=True)
    path = root / "bench-peers.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for suite in wanted:
        programs = [program for program in suite.programs if program.name in names]
        of_suite = kept.setdefault(suite.name, {})
        _forget(of_suite, suite, programs)
        for _ in rounds.run(suite, programs, of_suite, rounds=_ROUNDS.value, root=root):
            path.write_text(strict_json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(summary.format_table(summary.list_rows(suite, of_suite), suite), flush=True)
    shown = page.write(root, kept)
    print(f"written to {path} and {shown}")


def _forget(of_suite: dict[str, rounds.Kept], suite: Suite, programs: list[Program]) -> None:
    """Removes earlier rounds, and programs that are no more."""
    there = {program.name for program in suite.programs}
    for name in list(of_suite):
        again = not _ADD.value and _ROUNDS.value and any(name == p.name for p in programs)
        if again or name not in there:
            del of_suite[name]


def _check_names(flag: str, given: list[str], allowed: list[str]) -> list[str]:
    """Returns the names given, or all. Raises `UsageError` for one that does not exist."""
    for name in given:
        if name not in allowed:
            hint = errors.suggest(name, allowed)
            raise errors.UsageError(f"--{flag}={name}: not one of {', '.join(allowed)}{hint}")
    return given or allowed


if __name__ == "__main__":
    cli.run(main)
