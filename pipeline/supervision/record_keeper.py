"""Keeps `run.json` up to date while a run is supervised."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.runs import history, run_record
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision.pace import Pace
from pipeline.supervision.plan import Observer


def book(
    record: run_record.RunRecord,
    cluster: Mapping[str, Sequence[str]],
    pace: Pace,
    *,
    started: float,
    ended: float,
) -> None:
    """Puts where a run was, how far it got, and when, into its record."""
    record.cluster = {role: list(members) for role, members in cluster.items()}
    record.final_step = pace.newest_step
    record.seconds["total"] = round(max(0.0, ended - started), 3)
    if pace.first_step_at is None:
        return
    trained_at = pace.trained_at or ended
    if not started <= pace.first_step_at <= trained_at <= ended:
        return  # a clock was set back meanwhile: no durations, rather than negative ones
    record.seconds["to_first_step"] = round(pace.first_step_at - started, 3)
    record.seconds["training"] = round(trained_at - pace.first_step_at, 3)
    record.seconds["evaluation"] = round(ended - trained_at, 3)


@dataclasses.dataclass
class Keeper:
    """An observer that keeps the record of a run up to date while another shows it."""

    record: run_record.RunRecord
    run: RunFolder
    observer: Observer

    def __post_init__(self) -> None:
        self.beat = run_record.Heartbeat(self.record, self.run)
        self.recorder = history.Recorder(self.run)
        self._has_news = False
        self._restarts = self._copy_restarts()

    def _copy_restarts(self) -> list[run_record.Restart]:
        """A supervisor adds to those of the record, and fills in later what they have cost."""
        return [restart.model_copy() for restart in self.record.restarts]

    def show_line(self, line: str) -> None:
        """Passes it on."""
        self.observer.show_line(line)

    def show(self, statuses: Mapping[str, Status]) -> None:
        """Passes it on, and writes the record at restarts and when more has been read."""
        self.observer.show(statuses)
        self.recorder.see(statuses)
        before, self._restarts = self._restarts, self._copy_restarts()
        self._has_news |= self._restarts != before
        for status in statuses.values():
            if status.new_data and status.new_data not in self.record.new_data:
                self.record.new_data = [*self.record.new_data, status.new_data]
                self._has_news = True
            if status.input is not None and status.input != self.record.input:
                self.record.input = status.input
                self._has_news = True
        if self.beat(at_once=self._has_news):
            self._has_news = False  # what could not be written is tried again at the next look
