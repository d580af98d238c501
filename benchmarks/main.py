"""Measures the project against its peers, prints a table, writes <storage>/bench.json.

    python -m benchmarks.main --storage=output
    python -m benchmarks.main --only=preprocess

All of it takes some minutes. Figures are ratios to a peer measured in the same run, because
absolute ones say more about the machine and who else is on it.
"""

from __future__ import annotations

import importlib

from absl import flags

from benchmarks.result import Result
from pipeline import cli, errors, storage
from pipeline.storage import strict_json

# Modules of this folder with `run(storage_root: str) -> list[Result]`, in the order they run.
BENCHMARKS = (
    "preprocess",
    "flights",
    "scaling",
    "memory",
    "training",
    "flights_training",
    "recovery",
    "ledger",
    "scale",
    "first_try",
    "wide",
    "tables",
    "remote",
    "tune",
    "plan",
    "reference",
    "operate",
)

_ONLY = flags.DEFINE_string("only", "", "Name of the one benchmark to run. Default: all.")
_STORAGE = flags.DEFINE_string("storage", "output", "Folder for bench.json and temporary files.")


def main() -> None:
    """Runs the benchmarks and shows their results."""
    names = [_ONLY.value] if _ONLY.value else list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            hint = errors.suggest(name, BENCHMARKS)
            raise errors.UsageError(f"--only={name}: not one of {', '.join(BENCHMARKS)}{hint}")
    root = storage.make_absolute(_STORAGE.value)
    storage.makedirs(root)
    results = [r for name in names for r in importlib.import_module(f"benchmarks.{name}").run(root)]
    path = storage.join(root, "bench.json")
    storage.write_text(path, strict_json.dumps([r.to_json() for r in results], indent=1) + "\n")
    print(format_table(results), f"written to {path}", sep="\n")


def format_table(results: list[Result]) -> str:
    """Returns the results for people: one line each, and one more for each goal missed."""
    lines = [f"{'name':28}{'value':>12}{'against':>12}  {'unit':12}{'ratio':>7}  {'goal':8}  peer"]
    for r in results:
        lines.append(
            f"{r.name:28}{r.value:>12,.1f}{r.against:>12,.1f}  {r.unit:12}{r.ratio:>7.2f}  "
            f"{r.goal:8}  {r.peer}"
        )
        if not r.met:
            lines.append(f"  missed: {r.gap}")
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main)
