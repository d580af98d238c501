"""What `make status` shows: the state of a run, and a row for each of its processes."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from pipeline.console import text_table
from pipeline.console.figures import figure
from pipeline.console.progress import duration
from pipeline.runs import liveness, run_folder, run_record, server_loads
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.runs.run_record import RunRecord

_COLUMNS = ("process", "state", "step", "loss", "examples/s", "last seen", "pid")
# What a process is called that has said no more, once its run has ended as it should.
_UNSAID = {"done": "ended", "stopped": "ended"}


def describe(run: RunFolder, now: float) -> str:
    """Returns the state of a run as text: how it is, and when each process was last seen."""
    record = run_record.read(run)
    statuses = run_folder.read_statuses(run)
    state, reason = liveness.state_of_run(run, record, statuses, now=now)
    lines = [_format_headline(run, state, reason)]
    if not statuses:
        return "\n".join([*lines, "no process has reported yet"] if state == "running" else lines)
    lines += text_table.lines(
        [
            _COLUMNS,
            *(_build_cells(run, status, state, now=now) for _, status in sorted(statuses.items())),
        ]
    )
    lines += [*_list_restarts(record), *_list_servers(statuses), *_list_news(statuses)]
    return "\n".join(lines)


def _format_headline(run: RunFolder, state: str, reason: str) -> str:
    if reason.startswith(state):
        return f"run {run.name}: {reason}"
    text = f"run {run.name}: {state}" + (f" ({reason})" if reason else "")
    if state in (*liveness.AT_WORK, "done") or run.is_of_script:
        return text
    step = run_folder.find_saved_step(run)
    return f"{text}; " + ("nothing was saved" if step is None else f"saved at step {step:,}")


def _build_cells(run: RunFolder, status: Status, state: str, *, now: float) -> tuple[str, ...]:
    def format_cell(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    steps = format_cell(status.step, ",")
    if status.step is not None and status.max_steps:
        steps += f"/{status.max_steps:,}"
    own = liveness.find_process_state(run, status, now)
    if own not in run_folder.ENDED and state in _UNSAID:
        own = _UNSAID[state]
    if own in ("gone", "silent"):
        own = f"{own}, was {status.state}"
    place = str(status.pid)
    if status.host != socket.gethostname():
        place += f" on {status.host}"
    working = own == status.state and own not in run_folder.ENDED
    return (
        status.task,
        status.activity if own == status.state else own,
        steps,
        "" if status.loss is None else figure(status.loss),
        format_cell(status.examples_per_second if working else None, ",.0f"),
        f"{duration(max(0.0, now - status.time))} ago",
        place,
    )


def _list_restarts(record: RunRecord | None) -> list[str]:
    if record is None or not record.restarts:
        return []
    newest = record.restarts[-1]
    at = "" if newest.step is None else f" at step {newest.step:,}"
    told = f"{newest.role}-{newest.index}{at}: {newest.cause}"
    return [f"restarts: {len(record.restarts)}, the newest of {told}"]


def _list_servers(statuses: Mapping[str, Status]) -> list[str]:
    """Returns what a step of each process asks of the parameter servers, added up."""
    loads = server_loads.add_up(statuses.values())
    if len(loads) < 2:
        return []
    each = ", ".join(
        f"{server} {load.rows:,.0f} rows {load.bytes / 1e3:,.1f} kB"
        for server, load in loads.items()
    )
    values = {
        "rows": [load.rows for load in loads.values()],
        "bytes": [load.bytes for load in loads.values()],
    }
    most = ", ".join(
        f"{max(server_loads.to_mean(of)):.2f} ({unit})" for unit, of in values.items() if sum(of)
    )
    return [f"asked of servers by a step of each process: {each}; most to mean: {most}"]


def _list_news(statuses: Mapping[str, Status]) -> list[str]:
    lines = []
    for evaluation in (s.evaluation for s in statuses.values() if s.evaluation):
        metrics = ", ".join(
            f"{name} {figure(value)}"
            for name, value in evaluation.items()
            if name not in ("step", "global_step")
        )
        lines.append(f"newest evaluation, step {evaluation['step']:,.0f}: {metrics}")
    lines += [f"{s.task}: {s.note}" for s in statuses.values() if s.note]
    lines += [f"{s.task}: {s.error}" for s in statuses.values() if s.error and s.state == "failed"]
    return lines
