"""What a run shows on the terminal: how far it is, each evaluation, and the summary at the end."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TextIO

from pipeline import config, redaction, storage
from pipeline.cluster import topology
from pipeline.command_line import hints
from pipeline.config import config_file, own_input, strategy_table
from pipeline.console import terminal, text_table
from pipeline.console.figures import figure
from pipeline.console.live_area import LiveArea
from pipeline.console.progress import Progress, duration
from pipeline.jobs.epoch_lines import EpochLines
from pipeline.jobs.job import Job
from pipeline.jobs.role_lines import RoleLines
from pipeline.records import quarantine
from pipeline.reports import certainty, page, unlearned
from pipeline.runs import run_folder
from pipeline.runs.run_folder import Status
from pipeline.runs.run_record import ALL_STEPS, RunRecord

_DEFAULT = "mnist"  # what make takes without CONFIG=
_MARGIN = 10  # columns of the summary before its text, and one that stays empty
_BETWEEN_STEPS = ("evaluating", "exporting")  # of a process that also trains
# Metrics in the result line; the report has all of them.
_SHOWN = ("accuracy", "average_loss", "loss", "normalized_entropy", "grouped_auc")


class Display:
    """Shows the live state of a run; an `Observer` of the supervisor.

    On a terminal one bar follows the newest step, with a line a process below it; elsewhere it is
    one line now and then. Each new evaluation is a line of its own either way; epochs that ended
    alike share lines.
    """

    def __init__(
        self,
        max_steps: int | None,
        *,
        stream: TextIO | None = None,
        progress: Callable[..., Progress] = Progress,
        is_script: bool = False,
        stall_seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """How many steps a script makes may stay unknown, and what it does after them does. After
        `stall_seconds` without progress that is shown in place of the time left."""
        # Unknown until the chief has counted the steps of train.epochs.
        self._max_steps = max_steps
        self._is_script = is_script
        self._stall_seconds, self._clock = stall_seconds, clock
        # How far the processes that train are, and since when.
        self._reached: object = None
        self._reached_at = clock()
        self._stream = sys.stdout if stream is None else stream
        self._make_progress = progress
        self._progress: Progress | None = None
        self._first_step, self._is_measured = 0, False
        self._area = LiveArea(self._stream)
        self._roles = RoleLines(self._area)
        self._evaluated: float | None = None
        self._finishing = ""
        self._notes: dict[tuple[str, int], str] = {}
        self._epochs: set[tuple[str, int]] = set()
        self._epoch_lines = EpochLines(self.show_line)

    def show_line(self, line: str) -> None:
        """Shows one line, above the bar if there is one."""
        self._area.log(terminal.wrap(redaction.redact(line), self._stream))

    def show(self, statuses: Mapping[str, Status]) -> None:
        """Shows steps, loss, rate and newest evaluation out of what processes say."""
        training = [s for name, s in statuses.items() if _trains(name) and s.step is not None]
        if training:
            self._show_training(training)
        for status in statuses.values():
            self._show_note(status)
            self._show_epochs(status)
            self._show_evaluation(status)
        self._roles.show(statuses)

    def pause(self) -> None:
        """Takes the bar away while the run waits for machines; the rate after that is a new one."""
        if self._progress is not None and not self._finishing:
            self._progress.close()
            self._progress = None

    def _show_training(self, training: list[Status]) -> None:
        step = max(status.step or 0 for status in training)
        making_steps = [status for status in training if status.state not in _BETWEEN_STEPS]
        measured = bool(_list_rates(making_steps))
        known = [status.max_steps for status in training if status.max_steps is not None]
        self._max_steps = max(known, default=self._max_steps)
        if self._max_steps is None and not self._is_script:
            return
        if self._progress is None:
            self._progress = self._make_progress(
                "training",
                self._max_steps,
                unit="steps",
                stream=self._stream,
                area=self._area,
            )
            self._first_step, self._is_measured = step, False
            self._progress.begin_at(step)
        elif self._progress.done == self._first_step < step or (measured and not self._is_measured):
            # How long it takes until there is a first step says nothing of the others; nor do the
            # steps before the first that processes have measured, in examples/s.
            self._progress.begin_at(step)
        self._is_measured |= measured
        if self._is_script:
            over = all(s.state in run_folder.ENDED for s in training)
        else:  # before its last step, too: it was asked to stop, or found a reason
            over = any(s.state == "done" for s in training if s.task.startswith(topology.CHIEF))
        if self._max_steps is not None and step >= self._max_steps:
            self._end_bar(f"all {self._max_steps:,}")  # asynchronous processes may make more
        elif over:
            self._end_bar(f"{step:,}")
        elif not self._finishing:
            silent = self._find_silence(training)
            is_stalled = silent >= self._stall_seconds
            notes = [f"no progress for {duration(silent)}"] if is_stalled else _list_notes(training)
            self._progress.reach(step, *notes, is_stalled=is_stalled)

    def _find_silence(self, training: list[Status]) -> float:
        """Returns for how many seconds no process that trains has made progress."""
        reached = [(s.task, s.pid, s.state, s.step, s.work) for s in training]
        if reached != self._reached:
            self._reached, self._reached_at = reached, self._clock()
        return self._clock() - self._reached_at

    def _end_bar(self, steps: str) -> None:
        if self._progress is not None and not self._finishing:
            self._progress.close()
            self._epoch_lines.flush()
            self._finishing = "final evaluation and export"
            what = "the script does the rest" if self._is_script else self._finishing
            self.show_line(f"training: {steps} steps made; {what}")

    def _show_note(self, status: Status) -> None:
        """Shows once what each process wants to be seen, and later what it has added."""
        shown = self._notes.get((status.task, status.pid), "")
        if status.note and status.note != shown:
            self._notes[status.task, status.pid] = status.note
            self.show_line(f"{status.task}: {status.note.removeprefix(f'{shown}; ')}")

    def _show_epochs(self, status: Status) -> None:
        """Shows once each epoch that has ended since a process started."""
        for line in status.epochs or []:
            if (line, status.pid) not in self._epochs:
                self._epochs.add((line, status.pid))
                self._epoch_lines.add(line)

    def _show_evaluation(self, status: Status) -> None:
        found = status.evaluation
        if not found or found.get("step") == self._evaluated:
            return
        self._evaluated = found.get("step")
        values = ", ".join(
            f"{name} {figure(value)}"
            for name, value in found.items()
            if name not in ("step", "global_step")
        )
        self.show_line(f"evaluation at step {self._evaluated:.0f}: {values}")

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._roles.close()
        if self._progress is not None:
            self._progress.close()
        self._epoch_lines.flush()


def _trains(task_name: str) -> bool:
    return task_name.rpartition("-")[0] in topology.TRAINING_ROLES


def _list_rates(training: list[Status]) -> list[float]:
    return [s.examples_per_second for s in training if s.examples_per_second is not None]


def _list_notes(training: list[Status]) -> list[str]:
    newest = max(training, key=lambda status: status.time)
    if newest.state in _BETWEEN_STEPS:
        return [newest.activity]
    parts = []
    if newest.loss is not None:
        parts.append(f"loss {figure(newest.loss)}")
    if rates := _list_rates(training):
        parts.append(f"{sum(rates):,.0f} examples/s")
    return parts


def introduction(job: Job, *, resumes: bool) -> str:
    """Returns the lines that say what is about to run."""
    counts = topology.describe_counts(job.counts)
    verb = "resuming" if resumes else "starting"
    what = f"{verb} run {job.name} in {terminal.display_path(job.run.path)}: "
    what += f"{job.config.cluster.strategy} with {counts}"
    return "\n".join(terminal.wrap(line, sys.stdout) for line in (what, _describe_step(job.config)))


def _describe_step(job: config.Config) -> str:
    """Says what batch size, replicas and scaling of the learning rate come to; of an input that
    makes its batches by itself, what a run on it does not have."""
    if not job.data.has_records:
        return own_input.describe(job)
    replicas = topology.replicas_in_step(job.cluster)
    shared = f"{replicas} replicas of {topology.batch_per_replica(job):,}: " if replicas > 1 else ""
    rate = topology.learning_rate(job)
    given = job.train.optimizer.learning_rate
    scaled = "" if rate == given else f" ({given:g}, scaled {job.train.optimizer.scale})"
    return (
        f"each step: {shared}{topology.examples_per_step(job):,} examples, learning rate "
        f"{rate:g}{scaled}"
    )


def describe_finished(job: Job, record: RunRecord) -> str:
    """Returns what is printed of a run that has nothing left to do; also by which metric its best
    was found, if the job has another `eval.metric` by now."""
    line = f"run {job.name} is already finished; nothing to do"
    metric = (record.best or {}).get("metric", job.config.eval.metric)
    if metric == job.config.eval.metric:
        return line
    return f"{line}. Its best is by {metric}: another eval.metric counts when training continues"


def summary(job: Job, record: RunRecord) -> str:
    """Returns what is printed when a run is done: the result, the time, the places, what to try."""
    lines = [f"result   {describe_result(record)}"]
    unlearnt = unlearned.check_result(
        record.metrics, record.baselines, record.evaluated, intervals=record.intervals
    )
    if unlearnt:
        lines.append(f"warning  {unlearnt}")
    if record.seconds:
        lines.append(f"time     {_format_time(record)}")
    if record.restarts:
        causes = ", ".join(f"{one.role}-{one.index} ({one.cause})" for one in record.restarts)
        lines.append(f"restarts {causes}")
    lines += [f"warning  {line}" for line in quarantine.describe(record.left_out)]
    shown = terminal.display_path(job.run.path)
    lines.append(f"run      {shown} (run.json has the details)")
    if storage.exists(storage.join(job.run.path, page.FILE_NAME)):
        lines.append(f"report   {shown}/{page.FILE_NAME}")
    lines.append(f"logs     {shown}/logs")
    lines += [
        f"export   {terminal.display_path(storage.join(job.run.path, path))} ({kind})"
        for kind, path in record.exports.items()
        if path
    ]
    lines += [
        f"{'next' if i == 0 else '':9}{line}"
        for i, line in enumerate(_list_next_steps(job, record))
    ]
    return "\n".join(terminal.wrap(line, sys.stdout, indent=9) for line in lines)


def _list_next_steps(job: Job, record: RunRecord) -> list[str]:
    """Returns commands that can be typed as they are, each with what it does."""
    root = terminal.display_path(job.storage_root)
    where = hints.storage_setting(root)
    steps = {}
    if job.config.data.has_records:
        predict = f"make predict{hints.format_run(job.name, root)}"
        steps[predict] = "predictions of the exported model on the test split"
        if record.best and record.exports.get("best") and record.best["step"] != record.final_step:
            steps[f"{predict} EXPORT=best"] = (
                f"those of step {record.best['step']}, the best on eval"
            )
    steps[f"make tensorboard{where}"] = "curves of loss and accuracy"
    name = job.config.name
    strategy = strategy_table.STRATEGIES[job.config.cluster.strategy]
    if strategy.own_evaluator and _is_shipped(job.config):
        given = f" CONFIG={name}" if name != _DEFAULT or hints.is_via_command() else ""
        steps[f"make train STRATEGY=none{given}{where}"] = "the same job in a single process"
    rows = [(hints.format_as_typed(command), meaning) for command, meaning in steps.items()]
    lines = text_table.lines(rows)
    if not sys.stdout.isatty() or max(map(len, lines)) < terminal.width(sys.stdout) - _MARGIN:
        return lines
    return [line for command, meaning in rows for line in (command, f"  {meaning}")]


def _is_shipped(wanted: config.Config) -> bool:
    """Tells if a job is that of a shipped config, which its name stands for, wherever it runs."""
    if wanted.name not in config_file.list_shipped():
        return False
    shipped = config_file.load(wanted.name)
    return wanted.model_copy(update={"cluster": shipped.cluster}) == shipped


def describe_result(record: RunRecord) -> str:
    """Returns the last step, the metrics of the final evaluation, and the best model, in a line."""
    early = "" if record.reason == ALL_STEPS else f" ({record.reason})"
    parts = [f"step {record.final_step}{early}"]
    metric = (record.best or {}).get("metric")
    for split in ("test", "eval"):
        values = record.metrics.get(split, {})
        parts += [
            f"{split} {name} {figure(value)}{_describe_metric_context(record, split, name)}"
            for name, value in values.items()
            if name in (*_SHOWN, metric) and not _is_said(name, metric, values)
        ]
    best = record.best
    if best:
        said, cause = _split_interval(certainty.describe_best(record))
        parts.append(
            f"best {best['metric']} {figure(best['value'])}{said} at step {best['step']}"
            + (f" ({cause})" if cause else "")
        )
    return ", ".join(parts)


def _describe_metric_context(record: RunRecord, split: str, name: str) -> str:
    """Returns what a metric is to be read with: its interval, what a constant answer has,
    and that it is of too few records."""
    interval, cause = _split_interval(certainty.describe(record, split, name))
    simple = record.baselines.get(split, {})
    said = [f"baseline {figure(simple[name])}"] if name in simple else []
    said += filter(None, [cause])
    return interval + (f" ({', '.join(said)})" if said else "")


def _split_interval(sure: str) -> tuple[str, str]:
    """Returns an interval, to go after its value, and what is to be said of it, or why there is
    none; either may be empty."""
    ends, end, remark = sure.rpartition("]")
    return (f" {ends}]", remark.removeprefix(", ")) if end else ("", sure)


def _is_said(name: str, metric: str | None, values: Mapping[str, float]) -> bool:
    """True of a loss next to `average_loss`, which says the same in units of the label."""
    return name == "loss" != metric and "average_loss" in values


def _format_time(record: RunRecord) -> str:
    names = {
        "to_first_step": "to the first step",
        "training": "training",
        "evaluation": "final evaluation and export",
    }
    parts = [
        f"{duration(record.seconds[key])} {text}"
        for key, text in names.items()
        if key in record.seconds
    ]
    rate = record.examples_per_second
    speed = f"; {rate:,.0f} examples/s" if rate else ""
    spent = f": {', '.join(parts)}" if parts else ""
    return f"{duration(record.seconds['total'])}{spent}{speed}"
