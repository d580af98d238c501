"""Which model of a run did better on eval than its last one, which commands take by default."""

from __future__ import annotations

from pipeline import storage
from pipeline.command_line import hints
from pipeline.console import terminal
from pipeline.console.figures import figure
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder


def describe(run: RunFolder, step: int, command: str) -> str:
    """Returns a line that compares the model of the last step of a run with the best, and names the
    `command`, such as `make predict EXPORT=best`, that takes the best; an empty string if the last
    is the best, or nothing is known of another."""
    best = run.read(run_folder.BEST) or {}
    if not best.get("export") or best["step"] == step:
        return ""
    metric, result = best["metric"], run.read(run_folder.RESULT) or {}
    last = result.get("metrics", {}).get("eval", {}).get(metric)
    compared = f"{metric} {figure(best['value'])}"
    compared += "" if last is None else f", the last has {figure(last)}"
    root = storage.parent(storage.parent(run.path))
    of_run = hints.format_run(run.name, terminal.display_path(root))
    return hints.format_as_typed(
        f"note: this is the model of the last step, {step:,}; that of step {best['step']:,} did "
        f"better on eval ({compared}): {command}{of_run}"
    )
