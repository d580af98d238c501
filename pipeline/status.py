"""Shows how every process of a run is doing, from any host that sees the run folder.

python -m pipeline.status --run=NAME         the newest run without --run
make status [RUN=name]
"""

from __future__ import annotations

import time

from absl import flags

from pipeline import cli, run_folder
from pipeline.run_folder import RunFolder, Status

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")

_COLUMNS = ("process", "state", "step", "loss", "examples/s", "last word", "on")
_WIDTHS = (14, 12, 16, 10, 12, 12, 0)


def main() -> None:
    """Prints one row a process."""
    run = run_folder.find_run(_STORAGE.value, _RUN.value or None)
    print(describe(run, now=time.time()))


def describe(run: RunFolder, now: float) -> str:
    """Returns the state of a run as text: what `run.json` says, and each process's last word."""
    record = run.read("run.json") or {}
    state = record.get("status", "started by hand")
    reason = record.get("reason")
    lines = [f"run {run.name}: {state}" + (f" ({reason})" if reason else "")]
    statuses = run_folder.read_statuses(run)
    if not statuses:
        return "\n".join([*lines, "no process has said anything yet"])
    lines.append(_row(_COLUMNS))
    lines += [_row(_cells(status, now)) for _, status in sorted(statuses.items())]
    newest = [s.evaluation for s in statuses.values() if s.evaluation]
    for evaluation in newest:
        metrics = ", ".join(
            f"{name} {value:.4f}"
            for name, value in evaluation.items()
            if name not in ("step", "global_step")
        )
        lines.append(f"newest evaluation, step {evaluation['step']:,.0f}: {metrics}")
    lines += [f"{s.task}: {s.note}" for s in statuses.values() if s.note]
    lines += [f"{s.task}: {s.error}" for s in statuses.values() if s.error]
    return "\n".join(lines)


def _cells(status: Status, now: float) -> tuple[str, ...]:
    def shown(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    steps = shown(status.step, ",")
    if status.step is not None and status.max_steps:
        steps += f" / {status.max_steps:,}"
    return (
        status.task,
        status.state,
        steps,
        shown(status.loss, ".4f"),
        shown(status.examples_per_second, ",.0f"),
        f"{max(0.0, now - status.time):,.0f} s ago",
        f"{status.host} (pid {status.pid})",
    )


def _row(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


if __name__ == "__main__":
    cli.run(main)
