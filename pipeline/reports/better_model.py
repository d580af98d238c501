"""Which model of a run did better on eval than its last one, which commands take by default."""

from __future__ import annotations

from pipeline import storage
from pipeline.command_line import hints
from pipeline.console import terminal
from pipeline.console.figures import figure
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder


def describe(run: RunFolder, step: int, command: str) -> str:
    """Returns a line that compares the model of a `step`, the last one that could be read, with the
    best of a run, and names the `command`, such as `make predict EXPORT=best`, that takes the best;
    an empty string if they are the same, or nothing is known of another."""
    best = run.read(run_folder.BEST) or {}
    if not best.get("export") or best["step"] == step:
        return ""
    metric, result = best["metric"], run.read(run_folder.RESULT) or {}
    # Of a run that trains again, or whose newest checkpoint is damaged, it is another step.
    is_last = result.get("final_step") == step
    last = result.get("metrics", {}).get("eval", {}).get(metric) if is_last else None
    compared = f"{metric} {figure(best['value'])}"
    compared += "" if last is None else f", the last has {figure(last)}"
    root = storage.parent(storage.parent(run.path))
    of_run = hints.format_run(run.name, terminal.display_path(root))
    return hints.format_as_typed(
        f"note: this is the model of {'the last step,' if is_last else 'step'} {step:,}; that of "
        f"step {best['step']:,} did better on eval ({compared}): {command}{of_run}"
    )
