"""Reports after each save what has been read, and which epochs have ended."""

from __future__ import annotations

import collections
import dataclasses

import tensorflow as tf

from pipeline import config
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import report
from trainer.input import epoch_order
from trainer.monitoring import event_files
from trainer.monitoring.status_reporter import Reporter

# Status files, which are written every second and read by all, stay below 4 kB with these.
_IN_STATUS, _LINES_IN_STATUS = 6, 12


class EpochEnds:
    """Reports after a save what has been read by then, and which epochs have ended; an `AfterSave`.

    It goes by the checkpoint, so that it reports what a resumed run would. The first save is at the
    start: epochs that had ended by then are not reported again.
    """

    def __init__(
        self,
        model_dir: str,
        blocks: epoch_order.Blocks,
        reporter: Reporter,
        *,
        cluster: config.Cluster,
    ) -> None:
        self._model_dir, self._blocks, self._reporter = model_dir, blocks, reporter
        self._cluster = cluster
        self._known: int | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES_IN_STATUS)

    def __call__(self, step: int, seconds: float) -> None:
        """Notes one save."""
        checkpoint = checkpoint_files.find_newest(self._model_dir)
        if checkpoint is None:
            return
        found, _ = report.account(checkpoint, self._blocks)
        ended = [epoch for epoch in found.epochs if not epoch.left]
        known = len(ended) if self._known is None else self._known
        self._known = max(known, len(ended))
        for epoch in ended[known:]:
            line = report.format_epoch(epoch, self._cluster)
            tf.get_logger().info(line)
            self._lines.append(line)
        self._write(found, ended[known:])
        self._reporter.note(input=found.list_newest(_IN_STATUS), epochs=list(self._lines))

    def _write(self, found: report.RecordUsage, ended: list[epoch_order.Epoch]) -> None:
        values = {"input/epochs": sum((e.due - e.left) / e.due for e in found.epochs)}
        for epoch in ended:
            counted = dataclasses.asdict(epoch)
            names = ("once", "more", "never", "skipped")
            values |= {f"input/{name}": counted[name] for name in names}
        event_files.write(self._model_dir, found.step, values, flush=True)
